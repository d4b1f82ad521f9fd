package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Depth is what waits and runs of one type.
type Depth struct {
	Type       string
	Pending    int64
	Due        int64 // of Pending, those whose run_after has passed
	Running    int64
	WaitingIDs int64         // product ids in PENDING jobs; additions that haven't been taken yet are not counted
	OldestDue  time.Duration // how long the longest due job has been waiting
}

// Depth returns a row a type that has unfinished jobs, in order of type. Its cost doesn't grow with the history.
func (s *Store) Depth(ctx context.Context) ([]Depth, error) {
	ctx, done := s.bound(ctx)
	defer done()
	rows, err := s.cfg.DB.Query(ctx, s.sql.depth)
	if err != nil {
		return nil, fmt.Errorf("depth: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (d Depth, err error) {
		var ms float64
		err = r.Scan(&d.Type, &d.Pending, &d.Due, &d.Running, &d.WaitingIDs, &ms)
		d.OldestDue = time.Duration(ms * float64(time.Millisecond))
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("depth: %w", err)
	}
	return out, nil
}

// Duration is how long the jobs of one type took.
type Duration struct {
	Type     string
	Runs     int64
	P50, P95 time.Duration
	Failures int64
	Since    time.Time // when the first of them ended
}

// MostDurations is how many jobs Durations looks at, the last ones to end. 50,000 entries of an index are read, and sorted by
// type and time, in some 25 ms; all jobs of a busy day take a second.
const MostDurations = 50_000

// Durations returns a row a type with jobs that ended within the window, the slowest type first. Of more than MostDurations jobs
// it counts the last ones: then the Runs of all rows are MostDurations together, and a type without a row may have ended before.
func (s *Store) Durations(ctx context.Context, window time.Duration) ([]Duration, error) {
	ctx, done := s.bound(ctx)
	defer done()
	rows, err := s.cfg.DB.Query(ctx, s.sql.durations, window.Seconds(), MostDurations)
	if err != nil {
		return nil, fmt.Errorf("durations: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (d Duration, err error) {
		var p50, p95 float64
		err = r.Scan(&d.Type, &d.Runs, &p50, &p95, &d.Failures, &d.Since)
		d.P50, d.P95 = time.Duration(p50*float64(time.Millisecond)), time.Duration(p95*float64(time.Millisecond))
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("durations: %w", err)
	}
	return out, nil
}
