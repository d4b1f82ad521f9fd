package queue

import "time"

// LooksAreSlow makes the store take its last full looks for slow ones, and the next one due after wait.
func (s *Store) LooksAreSlow(wait time.Duration) {
	s.looks.mu.Lock()
	defer s.looks.mu.Unlock()
	s.looks.slow, s.looks.next = slowRow, time.Now().Add(wait)
}

// PurgeRefreshesText is the statement as it is sent.
func (s *Store) PurgeRefreshesText() string { return s.sql.purgeRefreshes }
