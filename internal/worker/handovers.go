package worker

import (
	"sync"
	"time"
)

// handovers is what the listener has heard of jobs that were handed over. Its methods never block.
type handovers struct {
	lease time.Duration // the shortest that a job may have

	mu      sync.Mutex
	own     []int64
	unsure  bool // there may be more of them than own
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
	kept := h.watched[:0]
	for _, o := range h.watched {
		if !o.due.After(now) {
			others = append(others, o)
			continue
		}
		kept = append(kept, o)
		h.ringLocked(o.due, ring)
	}
	h.watched = kept
	return own, unsure, others
}

// any says whether there is a job of this worker's to be taken, or may be.
func (h *handovers) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unsure || len(h.own) > 0
}
