package queue

import (
	"context"
	"errors"
	"fmt"
)

// rescueEach leads each job through the door. The first attempt's rescue comes without a delay: its worker has most
// likely died of something else.
func (s *Store) rescueEach(ctx context.Context, found []Rescued) ([]Rescued, error) {
	var errs []error
	rescued := found[:0]
	for _, r := range found {
		settings := s.Settings(r.Type)
		back := Return{
			ID: r.ID, Cause: causeRescued, Limit: settings.MaxAttempts,
			Err: fmt.Sprintf("the lease of worker %s ended: it died, froze or lost its connection", r.WorkerID),
		}
		if r.Attempt > 1 {
			back.Delay = settings.Backoff(r.Attempt - 1)
		}
		out, err := s.requeue(ctx, back)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("rescue: %w", err))
		case out.Verdict != Gone && out.Verdict != Busy:
			r.Returned = out
			rescued = append(rescued, r)
		}
	}
	return rescued, errors.Join(errs...)
}

// SweepReport is what a sweep found.
type SweepReport struct {
	Repaired int64 // additions without a waiting job; 0 unless somebody ended or deleted a PENDING job by hand
}

// Sweep checks that every unmarked addition has a waiting job, and repairs what is not so.
func (s *Store) Sweep(ctx context.Context) (SweepReport, error) {
	ctx, done := s.bound(ctx)
	defer done()
	var r SweepReport
	if err := s.cfg.DB.QueryRow(ctx, s.sql.sweep).Scan(&r.Repaired); err != nil {
		return r, fmt.Errorf("sweep: %w", err)
	}
	return r, nil
}
