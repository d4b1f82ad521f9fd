package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Retention says how long finished jobs are kept, by outcome. PENDING and RUNNING jobs are kept whatever their age; 0 keeps
// that outcome for ever.
type Retention struct {
	Completed time.Duration // COMPLETED and COMPLETED_WITH_ERRORS, and the refreshes that they brought
	Failed    time.Duration // dead letters, which can be replayed as long as they are there
}

// Validate says all that is wrong with r at once.
func (r Retention) Validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{"completed": r.Completed, "failed": r.Failed} {
		if d < 0 || (d > 0 && d < time.Minute) {
			errs = append(errs, fmt.Errorf("retention of %s jobs is %v: give at least 1m, or 0 to keep them", name, d))
		}
	}
	return errors.Join(errs...)
}

// rule is the retention of some statuses.
type rule struct {
	age      time.Duration
	statuses []string
}

func (r Retention) rules() []rule {
	return []rule{{r.Completed, []string{"COMPLETED", "COMPLETED_WITH_ERRORS"}}, {r.Failed, []string{"FAILED"}}}
}

// purging remembers where the last full batch has ended, so that the next one does not walk over its dead rows again: while
// somebody's snapshot keeps vacuum away, each batch would cost more than the one before. A batch that is not full begins anew,
// and so finds what was locked.
type purging struct {
	mu        sync.Mutex
	jobs      [2]pgtype.Timestamptz // by rule; NULL for the beginning of time
	refreshes int64
}

// Purged is what one batch removed.
type Purged struct {
	Jobs      int64
	Refreshes int64
}

// Purge removes one batch of at most n finished jobs of each outcome that are older than its retention, each in a
// transaction of its own. Call it again while it removes n of something.
func (s *Store) Purge(ctx context.Context, r Retention, n int) (Purged, error) {
	var p Purged
	if err := r.Validate(); err != nil {
		return p, err
	}
	ctx, done := s.bound(ctx)
	defer done()
	s.purging.mu.Lock()
	defer s.purging.mu.Unlock()
	for i, rule := range r.rules() {
		if rule.age == 0 {
			continue
		}
		from, removed := s.purging.jobs[i], int64(0)
		if !from.Valid {
			from = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		}
		err := s.cfg.DB.QueryRow(ctx, s.sql.purge, rule.statuses, rule.age.Seconds(), n, from).Scan(&removed, &from)
		if err != nil {
			return p, fmt.Errorf("purge %v jobs: %w", rule.statuses, err)
		}
		if removed < int64(n) {
			from = pgtype.Timestamptz{}
		}
		s.purging.jobs[i] = from
		p.Jobs += removed
	}
	if r.Completed > 0 {
		from := s.purging.refreshes
		err := s.cfg.DB.QueryRow(ctx, s.sql.purgeRefreshes, r.Completed.Seconds(), n, from).Scan(&p.Refreshes, &from)
		if err != nil {
			return p, fmt.Errorf("purge refreshes: %w", err)
		}
		if p.Refreshes < int64(n) {
			from = 0
		}
		s.purging.refreshes = from
	}
	return p, nil
}

// Purgeable returns how many jobs Purge, called again and again, would remove.
func (s *Store) Purgeable(ctx context.Context, r Retention) (total int64, err error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	ctx, done := s.bound(ctx)
	defer done()
	for _, rule := range r.rules() {
		if rule.age == 0 {
			continue
		}
		var n int64
		if err := s.cfg.DB.QueryRow(ctx, s.sql.purgeable, rule.statuses, rule.age.Seconds()).Scan(&n); err != nil {
			return 0, fmt.Errorf("count %v jobs: %w", rule.statuses, err)
		}
		total += n
	}
	return total, nil
}
