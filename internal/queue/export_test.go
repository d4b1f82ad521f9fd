package queue

import (
	"context"
	"time"
)

// LooksAreSlow makes the store take its last full looks for slow ones, and the next look in between and the next look back due
// after these times.
func (s *Store) LooksAreSlow(between, back time.Duration) {
	s.looks.mu.Lock()
	defer s.looks.mu.Unlock()
	now := time.Now()
	s.looks.slow = slowRow
	s.looks.between, s.looks.back = turn{now.Add(between), true}, turn{now.Add(back), true}
}

// LooksAreFull says whether all of the store's looks are full ones.
func (s *Store) LooksAreFull() bool {
	s.looks.mu.Lock()
	defer s.looks.mu.Unlock()
	return s.looks.slow < slowRow
}

// PurgeRefreshesText is the statement as it is sent.
func (s *Store) PurgeRefreshesText() string { return s.sql.purgeRefreshes }

// MineText is the statement as it is sent.
func (s *Store) MineText() string { return s.sql.mine }

// ReserveAsking is ReserveBriefly that asks first whether a connection that was idle for a second still lives.
func (s *Store) ReserveAsking(ctx context.Context, n int) (Reservation, error) {
	return s.lookFor(ctx, n, true)
}

// LetEach has each Take give back the locks of the jobs that are over.
func (s *Store) LetEach() { s.hands.atOnce = 1 }

// LetAsUsual has a Take give them back when they are many.
func (s *Store) LetAsUsual() { s.hands.atOnce = letAtOnce }

// EndedOfLate is how long ago a lease ended at most that a search is for which must be quick.
const EndedOfLate = endedOfLate

// SearchesAreSlow makes the store take its last search of all ended leases for a slow one, and the next one due after d.
func (s *Store) SearchesAreSlow(d time.Duration) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	s.ended.slow, s.ended.next = true, time.Now().Add(d)
}

// Ended is how the store searches for ended leases.
func (s *Store) Ended() *Ended { return &s.ended }
