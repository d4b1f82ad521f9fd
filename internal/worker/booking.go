package worker

import (
	"maps"

	"notifyworker/internal/queue"
)

// The loop reserves for free slots, and the listener takes what is handed over, each on its own goroutine. So a slot is booked before it
// is asked for a job, and a job is claimed before it is asked for by its id.

// claimant is whose a claimed job is.
type claimant bool

const (
	byListener claimant = false
	byLoop     claimant = true
)

// book books up to n free slots, and returns how many.
func (s *slots) book(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.freeLocked())
	s.booked += n
	return n
}

// unbook gives back booked slots, after the jobs that they were for have been started. Whoever may keep the loop from one rings the bell
// afterwards.
func (s *slots) unbook(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.booked -= n
}

// claim says whether a job is one that this process neither has nor is about to have. If so it is the listener's, until unclaim.
func (s *slots) claim(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, claimed := s.claimed[id]; claimed || s.held[id] != nil {
		return false
	}
	s.claimed[id] = byListener
	return true
}

// claimUnknown claims and returns those of these jobs that nothing is known of, for the loop, until unclaim or until they are not among them any
// more; claimed says that the listener is about to have another one.
func (s *slots) claimUnknown(own []queue.Own) (unknown []queue.Own, claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.claimed, func(_ int64, by claimant) bool { return by == byLoop })
	for _, o := range own {
		_, listeners := s.claimed[o.ID]
		switch {
		case s.held[o.ID] != nil || s.tokens[o.Token]:
		case listeners:
			claimed = true
		default:
			s.claimed[o.ID] = byLoop
			unknown = append(unknown, o)
		}
	}
	return unknown, claimed
}

func (s *slots) unclaim(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claimed, id)
}
