package queue

import (
	"sync"
	"time"
)

// Ended decides how far back a search for ended leases goes. While somebody's old snapshot pins vacuum, the index of leases keeps an
// entry for each lease that ever was, and a search of all of them reads one after the other: seconds after an hour of it. So when that
// has become slow, most searches go back to shortly before the last one that found all there was. It is safe for concurrent use.
type Ended struct {
	mu      sync.Mutex
	covered time.Time // when the last search began behind which nothing was left; zero: none yet
	all     time.Time // not all leases are searched before; zero: always
}

// EndedSearch is one search.
type EndedSearch struct {
	Within *float64 // ms since the end of a lease, at most; nil: any

	of    *Ended
	began time.Time
}

const (
	slowSearch     = 100 * time.Millisecond // among live rows alone it takes a millisecond, and is made when a lease ends, or each half minute
	pausesPerAll   = 20                     // so slow searches of all take a twentieth of the time
	leaseSeenAfter = 35 * time.Second       // a lease that had ended for so long when its commit was seen waits for a search of all
)

// Search begins a search. Each is followed by Done.
func (e *Ended) Search() EndedSearch {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := EndedSearch{of: e, began: time.Now()}
	if s.began.Before(e.all) && !e.covered.IsZero() {
		// By the clock that stands still while the machine sleeps, and by the one that may be set.
		ago := max(s.began.Sub(e.covered), s.began.Round(0).Sub(e.covered.Round(0))) + leaseSeenAfter
		ms := float64(ago.Milliseconds())
		s.Within = &ms
	}
	return s
}

// Done takes note of how long the search took, whether it left none behind, and how it ended.
func (s EndedSearch) Done(took time.Duration, none bool, err error) {
	e := s.of
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Within == nil {
		e.all = time.Time{}
		if took >= slowSearch {
			e.all = time.Now().Add(pausesPerAll * took)
		}
	}
	// Where the first search of all could not be ended, others, who began earlier, know what was before.
	if err == nil && none || err != nil && e.covered.IsZero() {
		e.covered = s.began
	}
}
