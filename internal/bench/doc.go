// Package bench measures notifyworker on a database, beside what it could be instead: polling, the variant cte, commits that
// notify always, no triggers at all, and the least that any listener could do.
//
// It promises that what is compared is measured in one run, in turns, so that whatever disturbs the machine disturbs all
// alike, and that a figure is the median over the rounds; that workers are real ones, in this process where only time is
// measured (then one clock serves both ends), as processes of their own where their number, memory or processor time counts;
// that what fails is counted and shown; and that nothing stays in the database: it works in schemas of its own, which it drops
// however it ends, short of kill -9.
//
// It leaves to others: the command line, and where the results go.
//
// Start reading at bench.go (a run), then contender.go (what is compared) and starts.go (from commit to start). Each section is
// a file: latency.go, enqueue.go, drain.go and so on. report.go is what comes out, text.go how a terminal shows it.
package bench
