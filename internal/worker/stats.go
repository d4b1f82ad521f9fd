package worker

import (
	"maps"
	"sync"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// Conclusion is a kind of conclusion: what jobs are counted by.
type Conclusion struct {
	Type    string // a job type with a handler, "other" for the rest
	Outcome string // completed, completed_with_errors, concluded, requeued, merged, dead, released, lost, unwritten
}

// Phase is how far a worker's life has come.
type Phase string

// The phases.
const (
	Starting Phase = "starting" // not known to the others yet
	Working  Phase = "working"
	Draining Phase = "draining" // takes nothing new
)

// Trouble is a kind of call that fails. The zero value says that it does not.
type Trouble struct {
	Err   error // the last one; nil when the last call went well
	Since time.Time
}

func (t *Trouble) note(err error) {
	switch {
	case err == nil:
		*t = Trouble{}
	case t.Err == nil:
		*t = Trouble{err, time.Now()}
	default:
		t.Err = err
	}
}

// Stats is a snapshot of what a worker has done since it started.
type Stats struct {
	Slots, Running int
	Unwritten      int // outcomes on their way to the table
	Phase          Phase
	Turned         time.Time // when the loop last did something; while it works, it does at least every idleTurn

	Wakes      map[listen.Cause]uint64 // looks that each cause has led to
	Freed      uint64                  // looks that only a freed slot has led to
	LeaseEnds  uint64                  // times that the end of a lease woke this worker, to rescue what a dead one left
	Looks      uint64
	EmptyLooks uint64    // found nothing
	LookFull   Histogram // how long looks took that found a job, as seen from here
	LookEmpty  Histogram // and those that found nothing
	Reserved   uint64
	Concluded  map[Conclusion]uint64
	Returned   map[string]uint64 // jobs given back, by cause: refused, failed, permanent, released

	TookOver uint64 // jobs that were handed to another worker, which let them lie
	Rescued  uint64 // jobs of dead workers, by this one
	Repaired uint64 // additions that belonged to no job: should be 0 for ever
	Missed   uint64 // jobs that only the slow poll found: should be 0

	Toggles        uint64 // changes of the wish to be notified
	FailedBarriers uint64 // the sleep could not be trusted
	LastBeat       time.Time
	BeatTrouble    Trouble
	Failing        string // why jobs can't be reserved right now, "" when they can
	Trouble        Trouble

	Wait Histogram            // from due to reserved, by the database's clock
	Took map[string]Histogram // from reserved to concluded, by Conclusion.Type
}

// Stats returns how things stand.
func (w *Worker) Stats() Stats {
	running, pending := w.slots.counts()
	s := w.stats.snapshot()
	s.Slots, s.Running, s.Unwritten = w.cfg.Slots, running, pending
	return s
}

// stats gathers what Stats shows.
type stats struct {
	types map[string]bool // that have a handler: whoever may enqueue must not be able to make counters without end

	mu sync.Mutex
	s  Stats
}

const otherType = "other"

func newStats(handlers map[string]queue.Handler) *stats {
	st := &stats{types: map[string]bool{}}
	for name := range handlers {
		st.types[name] = true
	}
	st.s = Stats{
		Phase: Starting, Turned: time.Now(),
		Wakes: map[listen.Cause]uint64{}, Concluded: map[Conclusion]uint64{}, Returned: map[string]uint64{}, Took: map[string]Histogram{},
	}
	return st
}

func (st *stats) typeName(name string) string {
	if st.types[name] {
		return name
	}
	return otherType
}

func (st *stats) snapshot() Stats {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.s
	s.Wakes, s.Concluded, s.Returned, s.Took = maps.Clone(s.Wakes), maps.Clone(s.Concluded), maps.Clone(s.Returned), maps.Clone(s.Took)
	return s
}

func (st *stats) woken(causes listen.Causes) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, c := range causes.All() {
		st.s.Wakes[c]++
	}
}

func (st *stats) looked(found int, took time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Looks++
	if found == 0 {
		st.s.EmptyLooks++
		st.s.LookEmpty.observe(took)
		return
	}
	st.s.LookFull.observe(took)
}

func (st *stats) reserved(j queue.Job) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Reserved++
	st.s.Wait.observe(waited(j))
}

func (st *stats) concluded(jobType, outcome string, took time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	name := st.typeName(jobType)
	st.s.Concluded[Conclusion{name, outcome}]++
	h := st.s.Took[name]
	h.observe(took)
	st.s.Took[name] = h
}

func (st *stats) returned(cause queue.Kind) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Returned[cause.String()]++
}

func (st *stats) turned(p Phase) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Phase, st.s.Turned = p, time.Now()
}

func (st *stats) beat(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.BeatTrouble.note(err)
	if err == nil {
		st.s.LastBeat = time.Now()
	}
}

// reserving takes note of how a reservation ended.
func (st *stats) reserving(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Trouble.note(err)
	st.s.Failing = ""
	if err != nil {
		st.s.Failing = bounded(err.Error(), maxLogged)
	}
}

func (st *stats) freed()         { st.add(&st.s.Freed, 1) }
func (st *stats) leaseEnded()    { st.add(&st.s.LeaseEnds, 1) }
func (st *stats) tookOver()      { st.add(&st.s.TookOver, 1) }
func (st *stats) rescued()       { st.add(&st.s.Rescued, 1) }
func (st *stats) swept(n int)    { st.add(&st.s.Repaired, n) }
func (st *stats) missed(n int)   { st.add(&st.s.Missed, n) }
func (st *stats) toggled()       { st.add(&st.s.Toggles, 1) }
func (st *stats) barrierMissed() { st.add(&st.s.FailedBarriers, 1) }

func (st *stats) add(to *uint64, n int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	*to += uint64(n)
}
