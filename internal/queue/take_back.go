package queue

import (
	"context"
	"fmt"
	"time"
)

// TakeBack makes jobs that are RUNNING for this worker under these tokens, and that its process doesn't have, its own by new ones, as if
// Reserve had returned them. Those that somebody else has by now are not among the answers; those that can't be had this very moment come back as
// again: somebody looks after them, or a session of this worker's is about to end that has taken them.
func (s *Store) TakeBack(ctx context.Context, own []Own) (jobs []Job, again []int64, err error) {
	ids, tokens := make([]int64, len(own)), make([]string, len(own))
	for i, o := range own {
		ids[i], tokens[i] = o.ID, o.Token
	}
	r, err := s.takes(ctx, s.sql.takeBack, ids, tokens, s.cfg.WorkerID, s.Settings("").Lease.Milliseconds(), s.leases)
	if err != nil {
		return nil, nil, fmt.Errorf("take back: %w", err)
	}
	return r.Jobs, r.again, nil
}

// TakeOver takes over at most n of these jobs, those that were handed to other workers which live and have not taken them. When ids is
// nil, it looks at all that were handed over so long ago at least, by the server's clock.
func (s *Store) TakeOver(ctx context.Context, ids []int64, n int, ago time.Duration) ([]Job, error) {
	r, err := s.takes(ctx, s.sql.takeOver, n, ids, s.cfg.WorkerID, s.Settings("").Lease.Milliseconds(), s.leases, ago.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	return r.Jobs, nil
}

// takes calls a function that returns jobs as reserve does.
func (s *Store) takes(ctx context.Context, sql string, args ...any) (r Reservation, err error) {
	ctx, done := s.bound(ctx)
	defer done()
	rows, err := s.cfg.DB.Query(ctx, sql, args...)
	err = s.read(rows, err, &r)
	return r, err
}
