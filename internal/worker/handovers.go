package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"notifyworker/internal/queue"
)

const (
	// longestCall is what a call is taken to take at most: through a slower way others may be too early, which costs the owner a job.
	longestCall = 100 * time.Millisecond
	// After so many calls within the time that found nothing, somebody forges notifications: then all are answered by one call a time.
	mostMisses   = 20
	missesWithin = 100 * time.Millisecond
)

// handovers is what the listener has heard of jobs that were handed over, and what it has taken of them. Its methods never block.
type handovers struct {
	lease time.Duration // the shortest that a job may have

	took atomic.Int64 // ns that a call about them took, of late

	mu      sync.Mutex
	start   starter  // nil: nothing is to be taken, not yet or no more
	asking  int      // calls of the listener's under way
	answers []taking // of its calls, for the loop
	misses  int      // calls that found nothing, since missed
	missed  time.Time
	unsure  bool      // there may be jobs of this worker's that nobody knows of
	heard   bool      // the listener has heard of one that it did not take
	later   time.Time // there may be then; zero: not
	rest    time.Time // not to be asked for before
	watched []watched
	timer   *time.Timer // nil: none runs
	at      time.Time   // when timer fires
}

// watched is a job that was handed to somebody else.
type watched struct {
	job   int64
	due   time.Time // then it is to be looked after
	until time.Time // its lease counts from then on
}

// starter starts a job that was taken by a call that was sent at asked.
type starter func(j queue.Job, asked time.Time) *hold

// taking is how a call ended that was to take a job.
type taking struct {
	job      *queue.Handed // nil: it is somebody else's, but for again
	hold     *hold
	returned bool // it could not be started
	again    bool
	err      error
	asked    time.Time
	took     time.Duration
}

// open has the listener take jobs, and start them.
func (h *handovers) open(start starter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = start
}

// close has it take nothing any more.
func (h *handovers) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = nil
}

// begin starts a job, unless it is too late for that.
func (h *handovers) begin(j queue.Job, asked time.Time) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.start == nil {
		return nil
	}
	return h.start(j, asked)
}

// mayTake says whether the listener is to take a job now; if so, answered is to follow. Else the loop asks for it.
func (h *handovers) mayTake(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.start == nil || len(h.answers) >= mostHanded || now.Before(h.rest) {
		h.unsure, h.heard = true, true
		return false
	}
	h.asking++
	return true
}

func (h *handovers) answered(t taking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking--
	h.answers = append(h.answers, t)
	switch {
	case t.err != nil: // what else is heard of on that connection fails likewise
		h.unsure = true
		if rest := time.Now().Add(troubleFirst); h.rest.Before(rest) {
			h.rest = rest
		}
	case t.job == nil:
		h.missLocked(t.asked)
	}
}

// noSlot takes note of a job that the listener has no slot for.
func (h *handovers) noSlot(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsure, h.heard = true, true
	h.missLocked(now)
}

func (h *handovers) missLocked(at time.Time) {
	if at.Sub(h.missed) >= missesWithin {
		h.misses, h.missed = 0, at
	}
	h.misses++
	if rest := h.missed.Add(missesWithin); h.misses >= mostMisses && h.rest.Before(rest) {
		h.rest = rest
	}
}

// taken returns how the listener's calls ended since the last time.
func (h *handovers) taken() []taking {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.answers
	h.answers = nil
	return all
}

// restUntil has all jobs of this worker's asked for, but not before that time.
func (h *handovers) restUntil(at time.Time, ring func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsure, h.rest = true, at
	h.ringLocked(at, ring)
}

// tookCall takes note of how long a call about such jobs took. It is about the way to the server: the quickest calls tell, and those
// that a busy server or processor has held up count little.
func (h *handovers) tookCall(d time.Duration) {
	old := h.took.Load()
	if took := int64(min(d, longestCall)); old == 0 || took < old {
		h.took.Store(took)
	} else {
		h.took.Store(old + (took-old)/16)
	}
}

// call is how long such a call takes.
func (h *handovers) call() time.Duration { return time.Duration(h.took.Load()) }

// doubt has all jobs of this worker's asked for.
func (h *handovers) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsure = true
}

// doubtAt does so at that time.
func (h *handovers) doubtAt(at time.Time, ring func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.later.IsZero() || at.Before(h.later) {
		h.later = at
	}
	h.ringLocked(at, ring)
}

func (h *handovers) watch(o watched, ring func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watched) >= mostHanded {
		return
	}
	h.watched = append(h.watched, o)
	h.ringLocked(o.due, ring)
}

// ringAt sees to a ring at that time.
func (h *handovers) ringAt(at time.Time, ring func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ringLocked(at, ring)
}

func (h *handovers) ringLocked(at time.Time, ring func()) {
	if h.timer != nil {
		if !at.Before(h.at) {
			return
		}
		h.timer.Stop()
	}
	var t *time.Timer
	t = time.AfterFunc(time.Until(at), func() {
		h.mu.Lock()
		if h.timer == t { // else it was replaced while it fired
			h.timer = nil
		}
		h.mu.Unlock()
		ring()
	})
	h.timer, h.at = t, at
}

// next says whether jobs of this worker's are to be asked for, and whether it was told of one of them, and returns those of others that are
// to be looked after. It sees to a ring for what it keeps.
func (h *handovers) next(ring func()) (unsure, heard bool, others []watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	others, h.watched = h.split(h.watched, now, ring)
	switch {
	case now.Before(h.rest):
		if h.unsure || !h.later.IsZero() {
			h.ringLocked(h.rest, ring)
		}
		return false, false, others
	case h.later.IsZero():
	case h.later.After(now):
		h.ringLocked(h.later, ring)
	default:
		h.unsure, h.later = true, time.Time{}
	}
	unsure, heard, h.unsure, h.heard = h.unsure, h.heard, false, false
	return unsure, heard, others
}

// split parts those that are due from the others, and sees to a ring for these.
func (h *handovers) split(all []watched, now time.Time, ring func()) (due, kept []watched) {
	kept = all[:0]
	for _, o := range all {
		if !o.due.After(now) {
			due = append(due, o)
			continue
		}
		kept = append(kept, o)
		h.ringLocked(o.due, ring)
	}
	return due, kept
}

// any says whether there is a job of this worker's that is not started, or may be.
func (h *handovers) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unsure || !h.later.IsZero() || h.asking+len(h.answers) > 0
}
