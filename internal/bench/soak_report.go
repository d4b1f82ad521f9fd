package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

const enduranceAbout = `One worker, a process with its defaults, whose jobs do nothing, in one round; clients that enqueue at random times, on the same machine. ` +
	`Vacuum is pinned by a session that holds a REPEATABLE READ snapshot. Reservation: how long the worker's calls took that brought a job, from its metrics ` +
	`(between two bounds of the histogram values are taken to lie evenly); empty look: those that brought nothing. ` +
	`Started: jobs whose handler began. Dead rows are those of the server's statistics. Memory is the process's resident set.`

func newEndurance(r *run, rate float64, free, pinned, short time.Duration, history int) *endurance {
	e := &endurance{c: &contender{name: "soak", kind: advisory, processes: 1, tell: true}, rate: rate, free: free, pinned: pinned, history: history}
	if r.cfg.Short {
		e.pinned = short
		e.history /= 20
	}
	if r.cfg.given {
		e.pinned = r.cfg.Slice
	}
	if free > 0 {
		e.free = e.pinned / 5
	}
	if r.cfg.Rate > 0 {
		e.rate = float64(r.cfg.Rate)
	}
	if r.cfg.History != 0 {
		e.history = max(r.cfg.History, 0)
	}
	return e
}

func newSoak(r *run) *endurance {
	return newEndurance(r, 500, 0, 30*time.Minute, time.Minute, 1_000_000)
}

func soakSteps(r *run) int { return newSoak(r).steps() }

// measureSoak: half an hour behind an old snapshot.
func measureSoak(ctx context.Context, r *run, s *Section) error {
	e := newSoak(r)
	if err := r.endure(ctx, e); err != nil {
		return err
	}
	first, last := e.fifth(true, 0), e.fifth(true, 4)
	e.report(s, fmt.Sprintf("%v jobs/s for %v, vacuum pinned, %v finished jobs", Number(e.rate), e.pinned, Number(e.history)), []part{{"first fifth", first}, {"last fifth", last}})
	s.atLeast("jobs a second in the last fifth, by those wanted", last.rate()/e.rate, 0.98, "×")
	s.atMost("reservation p99 in the last fifth, by that in the first", last.full.quantile(0.99)/first.full.quantile(0.99), 2, "×")
	s.atMost("memory in the last fifth, by that in the first", last.memory/first.memory, 1.1, "×")
	s.atMost("file descriptors in the last fifth, by those in the first", last.files/first.files, 1.1, "×")
	e.warned(s)
	return nil
}

func newPinned(r *run) *endurance {
	e := newEndurance(r, 1000, 2*time.Minute, 10*time.Minute, 30*time.Second, 0)
	e.c.name, e.c.tag = "pinned", "_pinned"
	return e
}

func pinnedSteps(r *run) int { return newPinned(r).steps() }

// measurePinned: the same worker before and while somebody pins vacuum.
func measurePinned(ctx context.Context, r *run, s *Section) error {
	e := newPinned(r)
	if err := r.endure(ctx, e); err != nil {
		return err
	}
	unpinned, all, last := e.sum(func(s stretch) bool { return !s.pinned }), e.sum(func(s stretch) bool { return s.pinned }), e.fifth(true, 4)
	e.report(s, fmt.Sprintf("%v jobs/s, unpinned for %v, then pinned for %v, %v finished jobs", Number(e.rate), e.free, e.pinned, Number(e.history)),
		[]part{{"unpinned", unpinned}, {"pinned, all of it", all}, {"pinned, last fifth", last}})
	s.atLeast("jobs a second while pinned, by those wanted", all.rate()/e.rate, 0.98, "×")
	s.atMost("reservation p99 in the last fifth of the pinned time, by the unpinned one", last.full.quantile(0.99)/unpinned.full.quantile(0.99), 2, "×")
	e.warned(s)
	return nil
}

// warned judges whether the log says whose fault it is.
func (e *endurance) warned(s *Section) {
	s.atLeast("the worker's log names the session that pins vacuum (1: yes)", e.named, 1, "")
}

// part is a name for a stretch of the time.
type part struct {
	name string
	stretch
}

// fifth is one of five equal parts of the pinned (or unpinned) samples; of fewer than five, the first or the last of them.
func (e *endurance) fifth(pinned bool, n int) stretch {
	var of []stretch
	for _, s := range e.samples {
		if s.pinned == pinned {
			of = append(of, s)
		}
	}
	from, to := n*len(of)/5, (n+1)*len(of)/5
	if from == to && len(of) > 0 {
		from = min(from, len(of)-1)
		to = from + 1
	}
	return sumOf(of[from:to])
}

func (e *endurance) sum(which func(stretch) bool) stretch {
	var of []stretch
	for _, s := range e.samples {
		if which(s) {
			of = append(of, s)
		}
	}
	return sumOf(of)
}

// sumOf is several samples as one; what is no amount is that of the last one, and memory and descriptors are the largest.
func sumOf(of []stretch) (sum stretch) {
	for _, s := range of {
		sum.at, sum.pinned, sum.waiting, sum.dead, sum.size = s.at, s.pinned, s.waiting, s.dead, s.size
		sum.seconds += s.seconds
		sum.took = append(sum.took, s.took...)
		sum.full, sum.empty = sum.full.plus(s.full), sum.empty.plus(s.empty)
		sum.memory, sum.files = max(sum.memory, s.memory), max(sum.files, s.files)
	}
	return sum
}

var enduranceColumns = []Column{
	{"started/s", ""},
	{"start p50", "ms"},
	{"start p99", "ms"},
	{"reservation p50", "ms"},
	{"reservation p99", "ms"},
	{"empty look p99", "ms"},
	{"waiting", ""},
	{"dead rows", ""},
	{"table and indexes", "MiB"},
	{"memory", "MiB"},
	{"descriptors", ""},
}

func (s stretch) row(name string) Row {
	took := spreadOf(s.took)
	return row(name, s.rate(), took.p50, took.p99, s.full.quantile(0.5), s.full.quantile(0.99), s.empty.quantile(0.99), float64(s.waiting), s.dead, s.size, s.memory, s.files)
}

// report makes the tables and the pictures.
func (e *endurance) report(s *Section, title string, parts []part) {
	s.About = enduranceAbout
	whole := Table{Title: title, Columns: enduranceColumns}
	for _, p := range parts {
		whole.Rows = append(whole.Rows, p.row(p.name))
	}
	whole.Rows[len(whole.Rows)-1].Errors, _ = e.c.errors()
	course := Table{Title: "in the course of time", Columns: enduranceColumns}
	times := Chart{Title: fmt.Sprintf("p99, %s", title), Unit: "ms", Log: true, Lines: true, Series: []Series{{Name: "commit to start"}, {Name: "reservation"}}}
	dead := Chart{Title: "Dead rows of jobs", Unit: "rows", Lines: true, Series: []Series{{Name: "dead rows"}}}
	every := (len(e.samples) + 9) / 10 // there is room for ten labels
	for i, one := range e.samples {
		name := one.at.Round(time.Second).String()
		label := name
		if (i+1)%every != 0 {
			label = ""
		}
		if e.free > 0 && one.pinned {
			name += ", pinned"
		}
		course.Rows = append(course.Rows, one.row(name))
		times.Labels, dead.Labels = append(times.Labels, label), append(dead.Labels, label)
		times.Series[0].Values = append(times.Series[0].Values, Number(spreadOf(one.took).p99))
		times.Series[1].Values = append(times.Series[1].Values, Number(one.full.quantile(0.99)))
		dead.Series[0].Values = append(dead.Series[0].Values, Number(one.dead))
	}
	size := Table{Title: "sizes", Columns: []Column{{"at the start", "MiB"}, {"at the end", "MiB"}, {"a job", "bytes"}}}
	jobs := 0
	for _, one := range e.samples {
		jobs += len(one.took)
	}
	for _, name := range slices.Sorted(maps.Keys(e.after)) {
		size.Rows = append(size.Rows, row(name, e.before[name], e.after[name], (e.after[name]-e.before[name])*(1<<20)/float64(jobs)))
	}
	s.Tables, s.Charts = append(s.Tables, whole, size, course), append(s.Charts, times, dead)
	s.Notes = append(s.Notes, troublesOf([]*contender{e.c})...)
}
