package faults

import (
	"syscall"
	"testing"
	"time"
)

// handedTo waits until the worker sleeps and commits hand it their jobs.
func (r *rig) handedTo(p *process) {
	r.t.Helper()
	r.until(startup, "commits hand it their jobs", "SELECT count(*) = 1 FROM notifyworker.workers WHERE pid = $1::int AND wants_notify AND hands IS NOT NULL", p.pid())
}

func TestAWorkerFrozenWithJobsThatItWasHandedStartsNoneOfThemWhenItThaws(t *testing.T) {
	r := onDatabase(t)
	started := make(chan call, 1000)
	answer := make(chan struct{})
	e := serve(t, func(c call) string {
		started <- c
		if string(c.Config) != "{}" { // it runs until the frozen one has thawed
			select {
			case <-answer:
			case <-c.Gone:
			}
		}
		return ""
	})
	args := []string{"--handler=work=" + e.URL, "--lease=1m"} // within the patience it is not the lease that counts
	frozen := r.worker(args...)
	r.handedTo(frozen)
	hands := ask[string](r, "SELECT hands::text FROM notifyworker.workers WHERE pid = $1::int", frozen.pid())
	frozen.freeze()
	// The only one that can be handed anything: the other does not listen yet.
	handed := r.job("work", "{}")
	if got := ask[string](r, "SELECT status FROM notifyworker.jobs WHERE id = $1", handed); got != "RUNNING" {
		t.Fatalf("the job is %s, want it handed to the frozen worker", got)
	}
	other := r.worker(args...)
	r.handedTo(other)
	// Told again, since the other was not there the first time.
	r.exec(`SELECT pg_notify('notifyworker', format('{"worker":"%s","job":%s}', worker_id, id)) FROM notifyworker.jobs WHERE id = $1`, handed)
	if c := arrival(t, started, 10*time.Second, "the job that the frozen one was handed starts elsewhere"); c.JobID != handed || c.Attempt != 1 {
		t.Errorf("job %d starts as attempt %d, want job %d as the first", c.JobID, c.Attempt, handed)
	}
	if !ask[bool](r, "SELECT hands IS NULL FROM notifyworker.workers WHERE pid = $1::int", frozen.pid()) {
		t.Error("the frozen worker is still handed jobs")
	}
	jobs := 1
	start := func(config string) time.Duration { // the frozen one is handed the job
		r.exec("UPDATE notifyworker.workers SET hands = CASE WHEN pid = $2::int THEN $1::text::jsonb END", hands, frozen.pid())
		began := time.Now()
		id := r.job("work", config)
		if c := arrival(t, started, 10*time.Second, "a job starts"); c.JobID != id || c.Attempt != 1 {
			t.Errorf("job %d starts as attempt %d, want job %d as the first", c.JobID, c.Attempt, id)
		}
		jobs++
		return time.Since(began)
	}
	var slowest time.Duration
	for range 20 {
		slowest = max(slowest, start("{}"))
	}
	atMost(t, "the slowest start beside the frozen worker", slowest, inTheWay)
	for range 3 {
		start(`{"long": true}`)
	}
	other.shows("notifyworker_jobs_taken_over_total", float64(jobs))
	r.until(10*time.Second, "all others are completed", "SELECT bool_and(status = CASE WHEN config ? 'long' THEN 'RUNNING' ELSE 'COMPLETED' END) FROM notifyworker.jobs")
	r.exec("UPDATE notifyworker.workers SET hands = NULL WHERE pid = $1::int", frozen.pid())
	before := r.rowsAs("jobs", "true")
	frozen.send(syscall.SIGCONT)
	frozen.expected.Store(false)
	r.handedTo(frozen) // it has read of all that it was handed, and has asked for more
	if after := r.rowsAs("jobs", "true"); after != before {
		t.Errorf("the thawed worker has changed a row:\n%s\nwas\n%s", after, before)
	}
	close(answer)
	r.until(10*time.Second, "all are completed", "SELECT bool_and(status = 'COMPLETED' AND attempts = 1) FROM notifyworker.jobs")
	if n := len(e.seen()); n != jobs {
		t.Errorf("%d starts of %d jobs", n, jobs)
	}
	last := r.job("work", "{}")
	if c := arrival(t, started, 10*time.Second, "a job after the thaw"); c.JobID != last {
		t.Errorf("job %d starts, want %d", c.JobID, last)
	}
}
