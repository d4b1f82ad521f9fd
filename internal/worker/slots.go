package worker

import (
	"context"
	"sync"
	"time"

	"notifyworker/internal/queue"
)

// state is how far a reservation has come. It only ever grows.
type state uint8

const (
	working state = iota // its handler may still decide what becomes of it
	lost                 // somebody else has it, or may have it by now: nothing may be written
	handed               // the concluder has its outcome
	settled              // concluded
)

// hold is one reservation of this process. Its fields below the line belong to slots.mu.
type hold struct {
	job      queue.Job
	settings queue.TypeSettings
	lease    time.Duration
	began    time.Time // by this process's clock

	state    state
	until    time.Time // the lease is over by then, if it was not extended: counted from before the statement was sent
	extended time.Time // when until was last moved
	cancel   context.CancelCauseFunc
	recalled bool // cancelled by a drain: a failure or refusal is a release
	left     bool // no handler runs for it, or does any more
}

// slots knows every reservation of this process, and how many more it may have.
//
// A slot is free again when its job's outcome is handed to the concluder, not when it is written: so the next jobs run while
// the last ones are being written, and at most twice as many jobs as there are slots are RUNNING for this worker.
type slots struct {
	size  int
	freed chan struct{} // has room for one: running or pending has shrunk; read by the loop, later by drain

	mu      sync.Mutex
	running int                // goroutines of handlers
	pending int                // handed to the concluder, not settled
	held    map[int64]*hold    // by job id: what is working or handed, and so has a lease to extend
	tokens  map[string]bool    // of the handlers that run
	booked  int                // free slots that somebody is asking for jobs for
	claimed map[int64]claimant // jobs that somebody is asking for by their ids
}

func newSlots(n int) *slots {
	return &slots{size: n, freed: make(chan struct{}, 1), held: map[int64]*hold{}, tokens: map[string]bool{}, claimed: map[int64]claimant{}}
}

// free is how many jobs may be reserved now.
func (s *slots) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeLocked()
}

func (s *slots) freeLocked() int {
	return max(0, min(s.size-s.running, 2*s.size-s.running-s.pending)-s.booked)
}

func (s *slots) counts() (running, pending int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.pending
}

// take makes a hold of a job that was reserved by a statement sent at asked. When the job's id is held already, its earlier
// reservation has been lost, which nobody has told us yet.
func (s *slots) take(j queue.Job, settings queue.TypeSettings, asked time.Time, run bool, cancel context.CancelCauseFunc) *hold {
	h := &hold{job: j, settings: settings, lease: j.LeaseUntil.Sub(j.StartedAt), began: time.Now(), extended: asked, cancel: cancel}
	if h.lease <= 0 {
		h.lease = settings.Lease
	}
	h.until = asked.Add(h.lease)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.held[j.ID]; old != nil {
		s.loseLocked(old)
	}
	s.held[j.ID] = h
	h.left = !run
	if run {
		s.running++
		s.tokens[j.Token] = true
	}
	return h
}

// knows says whether a reservation is this process's already.
func (s *slots) knows(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[token]
}

// over says whether nothing of a reservation is left to be done here.
func (s *slots) over(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.left && (h.state == settled || h.state == lost)
}

// lose takes note that a reservation is somebody else's. What was handed to the concluder already is left to it: the
// statement that it sends finds out by the token.
func (s *slots) lose(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseLocked(h)
}

func (s *slots) loseLocked(h *hold) {
	if h.state != working {
		return
	}
	h.state = lost
	s.forget(h)
	h.cancel(queue.ErrLost)
}

// hand says whether the caller may hand an outcome of h to the concluder: first is true for one caller only, and alive is
// false when the reservation is lost.
func (s *slots) hand(h *hold) (first, alive, recalled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.state == working && !time.Now().Before(h.until) {
		s.loseLocked(h) // a process that was frozen and thawed
	}
	switch h.state {
	case working:
		h.state = handed
		s.pending++
		return true, true, h.recalled
	case lost:
		h.state = settled
		return true, false, h.recalled
	}
	return false, false, false
}

// settle ends a hold that was handed.
func (s *slots) settle(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.state = settled
	s.pending--
	s.forget(h)
	s.signal()
}

// leave ends a handler's goroutine, and returns how many others run.
func (s *slots) leave(h *hold) (running int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	h.left = true
	delete(s.tokens, h.job.Token)
	s.signal()
	return s.running
}

func (s *slots) forget(h *hold) {
	if s.held[h.job.ID] == h {
		delete(s.held, h.job.ID)
	}
}

func (s *slots) signal() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// overdue says whether a handed conclusion is not worth another try: its lease ended a whole lease ago.
func (s *slots) overdue(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().After(h.until.Add(h.lease))
}

// isLost says whether the holder should stop.
func (s *slots) isLost(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.state == lost
}

// recall cancels every handler that still works, for cause.
func (s *slots) recall(cause error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range s.held {
		if h.state == working {
			h.recalled = true
			h.cancel(cause)
			n++
		}
	}
	return n
}

// working returns the holds whose handlers have not ended.
func (s *slots) working() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*hold
	for _, h := range s.held {
		if h.state == working {
			all = append(all, h)
		}
	}
	return all
}
