package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Rescued is a job that was taken from a worker whose lease had ended.
type Rescued struct {
	ID       int64
	Type     string
	Attempt  int
	WorkerID string // the worker that held it
	Returned
}

const mostErrors = 10 // that are told of one Rescue: those of a thousand jobs are alike

// Rescue requeues jobs whose lease has ended, at most limit, one at a time and each in its own commit. Those that can't be
// rescued (somebody has the row locked, a trigger of the user's raises) don't hold up the others, however many they are: it asks
// for those behind them. Their errors, the first ten, come back joined, beside the jobs that were rescued.
//
// While a search of all leases is slow, it is for those that ended within the last 45 s, and RescueAll for the others.
func (s *Store) Rescue(ctx context.Context, limit int) (rescued []Rescued, err error) {
	return s.rescue(ctx, limit, s.ended.Within())
}

// RescueAll is Rescue for leases that ended at any time, when that is slow. It does nothing unless it is time for it, and is for a
// goroutine of its own: it may take seconds, and nobody should wait for it.
func (s *Store) RescueAll(ctx context.Context, limit int) (rescued []Rescued, err error) {
	if !s.ended.Due() {
		return nil, nil
	}
	return s.rescue(ctx, limit, nil)
}

// rescue is for leases that ended within so many ms, nil for all.
func (s *Store) rescue(ctx context.Context, limit int, within *int64) (rescued []Rescued, err error) {
	var errs []error
	passed := []int64{}
	for {
		asked := limit - len(rescued)
		began := time.Now()
		found, err := s.expired(ctx, asked, passed, within)
		if within == nil {
			s.ended.Searched(time.Since(began))
		}
		if err != nil {
			return rescued, errors.Join(append(errs, err)...)
		}
		for _, r := range found {
			out, err := s.rescueOne(ctx, r)
			if err != nil && len(errs) < mostErrors {
				errs = append(errs, fmt.Errorf("rescue: %w", err))
			}
			if err != nil || out.Verdict == Gone || out.Verdict == Busy {
				passed = append(passed, r.ID)
				continue
			}
			r.Returned = out
			rescued = append(rescued, r)
		}
		if len(found) < asked || len(rescued) >= limit {
			return rescued, errors.Join(errs...)
		}
	}
}

// expired asks for leases that have ended, the longest ended first, but for those of the jobs that were passed over.
func (s *Store) expired(ctx context.Context, limit int, passed []int64, within *int64) ([]Rescued, error) {
	ctx, end := s.bound(ctx)
	defer end()
	rows, err := s.cfg.DB.Query(ctx, s.sql.expired, limit, passed, within)
	if err != nil {
		return nil, fmt.Errorf("find leases that ended: %w", err)
	}
	var found []Rescued
	for rows.Next() {
		var r Rescued
		var maxAttempts int
		var worker *string
		if err := rows.Scan(&r.ID, &r.Type, &r.Attempt, &maxAttempts, &worker); err != nil {
			rows.Close()
			return nil, fmt.Errorf("find leases that ended: %w", err)
		}
		r.WorkerID = deref(worker)
		found = append(found, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("find leases that ended: %w", err)
	}
	return found, nil
}

// rescueOne leads a job through the door. The first attempt's rescue comes without a delay: its worker has most likely died of
// something else.
func (s *Store) rescueOne(ctx context.Context, r Rescued) (Returned, error) {
	ctx, end := s.bound(ctx)
	defer end()
	settings := s.Settings(r.Type)
	back := Return{
		ID: r.ID, Cause: causeRescued, Limit: settings.MaxAttempts,
		Err: fmt.Sprintf("the lease of worker %s ended: it died, froze or lost its connection", r.WorkerID),
	}
	if r.Attempt > 1 {
		back.Delay = settings.Backoff(r.Attempt - 1)
	}
	return s.requeue(ctx, back)
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
