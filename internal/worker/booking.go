package worker

import "notifyworker/internal/queue"

// The loop reserves for free slots, and the listener takes what is handed over, each on its own goroutine. So a slot is booked before it
// is asked for a job, and a job is claimed before it is asked for by its id.

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

// claim says whether a job is one that this process neither has nor is about to have. If so it is the caller's, until unclaim.
func (s *slots) claim(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] != nil || s.claimed[id] {
		return false
	}
	s.claimed[id] = true
	return true
}

// claimUnknown claims and returns those of these jobs that nothing is known of; again says that somebody else is about to have one.
func (s *slots) claimUnknown(own []queue.Own) (unknown []queue.Own, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range own {
		switch {
		case s.held[o.ID] != nil || s.tokens[o.Token]:
		case s.claimed[o.ID]:
			again = true
		default:
			s.claimed[o.ID] = true
			unknown = append(unknown, o)
		}
	}
	return unknown, again
}

func (s *slots) unclaim(own ...queue.Own) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range own {
		delete(s.claimed, o.ID)
	}
}
