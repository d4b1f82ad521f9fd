package queue

import (
	"sync"
	"time"
)

// Ended says how leases that have ended are searched for. While somebody's old snapshot pins vacuum, the index of leases keeps an entry
// for each lease that ever was, and a search of all reads one after the other: seconds, after an hour of it. What a worker of this moment
// leaves must not wait for that. So once a search of all is slow, it is made now and then beside the others, which are for leases
// that ended of late. It is safe for concurrent use.
type Ended struct {
	mu   sync.Mutex
	slow bool      // the last search of all was
	next time.Time // then one of all is due, while they are slow
}

const (
	slowSearch = 100 * time.Millisecond // among live rows alone it takes a millisecond
	// endedOfLate is longer than what lies between two searches, even if nothing but the sweep brings them. What ended earlier and could
	// not be had until now, as somebody has its row locked or its commit came late, waits for a search of all.
	endedOfLate = 45 * time.Second
)

// Within is how long ago the leases may have ended that a search is for which must be quick, in ms; nil: all.
func (e *Ended) Within() *int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.slow {
		return nil
	}
	ms := endedOfLate.Milliseconds()
	return &ms
}

// Due says whether a search of all is to be made beside those.
func (e *Ended) Due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.slow && !time.Now().Before(e.next)
}

// Searched takes note of how long a search of all took, or took in vain: while they are slow they take a twentieth of the time, and come
// each minute at least.
func (e *Ended) Searched(took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slow, e.next = took >= slowSearch, time.Now().Add(backAfter(took))
}
