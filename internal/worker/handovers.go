package worker

import (
	"sync"
	"sync/atomic"
	"time"
)

// longestCall is what a call is taken to take at most: through a slower way others may be too early, which costs the owner a job.
const longestCall = 100 * time.Millisecond

// handovers is what the listener has heard of jobs that were handed over. Its methods never block.
type handovers struct {
	lease time.Duration // the shortest that a job may have

	took atomic.Int64 // ns that a call about them took, of late

	mu      sync.Mutex
	own     []int64
	put     []watched // own, but somebody looks after them: not before due
	unsure  bool      // there may be more of them than own
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

func (h *handovers) mine(job int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.own) >= mostHanded {
		h.unsure = true
		return
	}
	h.own = append(h.own, job)
}

// later puts off jobs of this worker's.
func (h *handovers) later(jobs []int64, at time.Time, ring func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, job := range jobs {
		if len(h.put) >= mostHanded {
			h.unsure = true
			break
		}
		h.put = append(h.put, watched{job: job, due: at})
	}
	h.ringLocked(at, ring)
}

// putOff says whether there are such jobs.
func (h *handovers) putOff() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.put) > 0
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

func (h *handovers) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsure = true
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

// ringAt sees to a ring at that time, if none is to come before.
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

// next returns this worker's jobs, and whether there may be more; and those of others that are to be looked after. It sees to a
// ring for what it keeps.
func (h *handovers) next(ring func()) (own []int64, unsure bool, others []watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.own), handedAtOnce)
	own, h.own = h.own[:n:n], h.own[n:]
	unsure, h.unsure = h.unsure, false
	now := time.Now()
	if len(h.own) > 0 {
		h.ringLocked(now, ring)
	}
	var again []watched
	again, h.put = h.split(h.put, now, ring)
	for _, o := range again {
		own = append(own, o.job)
	}
	others, h.watched = h.split(h.watched, now, ring)
	return own, unsure, others
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

// any says whether there is a job of this worker's to be taken, or may be.
func (h *handovers) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unsure || len(h.own)+len(h.put) > 0
}
