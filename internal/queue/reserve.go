package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Reservation is what a look at the table brought.
type Reservation struct {
	Jobs []Job
	// NextDue is how long until the next job is due, 0 for "look again now", negative when none is known. It says nothing
	// (and is 0) when as many jobs came as were asked for.
	NextDue time.Duration
	// NextLease is how long until the next lease of a job or a refresh ends, 0 when one has ended already, negative when
	// there is none. It is negative, too, when as many jobs came as were asked for.
	NextLease time.Duration
	// Poisoned is the error that one of the due jobs raised: it was passed over and stays PENDING, or its ids were more than
	// one row can hold, and it was taken with some of them.
	Poisoned error
	// LookBetween and LookBack are when the calls of these names should be made: looks may have started behind a job that is
	// due. Zero when that is not needed.
	LookBetween, LookBack time.Time
	// LastFrom is the due time at which the look before this one started: what was due earlier it could not see. It is zero
	// when that look saw everything, and at the first one.
	LastFrom time.Time
	// Brief says that nothing is known of what comes next, though fewer jobs came than were asked for: look again soon.
	Brief bool

	look time.Duration // how long the server took to find the jobs, or that there is none; of Take what is left of the job's lease
	told bool          // the server said what comes next

	again []int64 // of TakeBack: somebody looks after these
}

// emptyLooks counts looks that found nothing although something is due: a row that somebody else holds locked.
type emptyLooks struct {
	n atomic.Int64
}

const (
	firstEmptyLook = 5 * time.Millisecond
	lastEmptyLook  = time.Second
)

// wait is how long to wait before the next look after one that found nothing of what is due.
func (e *emptyLooks) wait() time.Duration {
	return min(firstEmptyLook<<min(e.n.Add(1)-1, 10), lastEmptyLook)
}

// Reserve takes at most n due jobs, the longest due first, in one round trip. Jobs is empty, and there is no error, when no
// job is due. One job that can't be reserved (a trigger of the user's raises, say) doesn't stop the others: see Poisoned.
func (s *Store) Reserve(ctx context.Context, n int) (Reservation, error) {
	return s.lookFor(ctx, n, false)
}

// ReserveBriefly is Reserve for whoever was just told of a job and wants to start it at once. When one statement gets it jobs
// and nothing has to be folded, it does not ask what comes next, nor for what others hold locked and for additions without a
// job: then the Reservation is Brief, and the caller must look again soon. It takes a connection that was idle for up to 10 s
// without asking whether it still lives; when that one turns out to be lost, it is Reserve.
func (s *Store) ReserveBriefly(ctx context.Context, n int) (Reservation, error) {
	r, err := s.lookFor(withNews(ctx), n, true)
	if Retryable(err) && !errors.Is(err, context.DeadlineExceeded) {
		return s.lookFor(ctx, n, false)
	}
	return r, err
}

func (s *Store) lookFor(ctx context.Context, n int, brief bool) (Reservation, error) {
	ctx, done := s.bound(ctx)
	defer done()
	start := s.looks.start()
	r, err := s.reserve(ctx, n, start.timestamp(), false, brief)
	if err != nil {
		s.redial(err)
		if Retryable(err) || SetupProblem(err) {
			return Reservation{}, fmt.Errorf("reserve: %w", err)
		}
		cause := err
		if r, err = s.reserve(ctx, n, start.timestamp(), true, false); err != nil {
			return Reservation{}, fmt.Errorf("reserve: %w", err)
		}
		r.Poisoned = fmt.Errorf("reserve: %w", cause)
	}
	r.LastFrom = s.looks.looked(start, r.Jobs, r.told, r.look)
	r.LookBetween, r.LookBack = s.looks.whenBehind(between), s.looks.whenBehind(full)
	r.Brief = brief && !r.told && len(r.Jobs) < n
	if len(r.Jobs) > 0 {
		s.empty.n.Store(0)
	} else if r.NextDue == 0 {
		r.NextDue = s.empty.wait()
	}
	return r, nil
}

func (s *Store) reserve(ctx context.Context, n int, from pgtype.Timestamptz, careful, brief bool) (Reservation, error) {
	lease := s.Settings("").Lease
	r := Reservation{NextLease: -1}
	rows, err := s.cfg.DB.Query(ctx, s.sql.reserve, n, s.cfg.WorkerID, lease.Milliseconds(), s.leases, s.cfg.MaxIDs, from, careful, brief)
	if err := s.read(rows, err, &r); err != nil {
		return r, err
	}
	slices.SortFunc(r.Jobs, func(a, b Job) int { return cmp.Or(a.RunAfter.Compare(b.RunAfter), cmp.Compare(a.ID, b.ID)) })
	return r, nil
}

// read reads what a query for rows as those of reserve() has returned, and closes it.
func (s *Store) read(rows pgx.Rows, err error, r *Reservation) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	var row reserved
	into := row.columns()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row.add(r)
	}
	return rows.Err()
}

// reserved is a row of reserve(), or of a function that returns the same: a job, or the one without an id that tells when to look again.
// One serves all rows of an answer, since what a row costs here a look of a thousand jobs costs a thousand times.
type reserved struct {
	id                                              pgtype.Int8
	tenant, kind, operatedBy, trace, catalog, token pgtype.Text
	count, attempts, maxAttempts                    pgtype.Int4
	created, runAfter, started, lease               pgtype.Timestamptz
	config                                          []byte
	dueMS, leaseMS, lookMS                          pgtype.Float8
}

// columns are the places of the columns, in the order in which reserve returns them.
func (w *reserved) columns() []any {
	return []any{
		&w.id, &w.tenant, &w.kind, &w.operatedBy, &w.config, &w.trace, &w.catalog, &w.count, &w.token, &w.attempts, &w.maxAttempts,
		&w.created, &w.runAfter, &w.started, &w.lease, &w.dueMS, &w.leaseMS, &w.lookMS,
	}
}

// add adds what the row says.
func (w *reserved) add(r *Reservation) {
	if len(r.Jobs) == 0 { // the first row's has least of what it takes to take them
		r.look = time.Duration(w.lookMS.Float64 * float64(time.Millisecond))
	}
	switch {
	case !w.id.Valid:
		r.NextDue, r.NextLease, r.told = until(w.dueMS), until(w.leaseMS), true
	case !w.token.Valid:
		r.again = append(r.again, w.id.Int64)
	default:
		r.Jobs = append(r.Jobs, Job{
			ID: w.id.Int64, TenantID: w.tenant.String, Type: w.kind.String, OperatedBy: w.operatedBy.String, TraceID: w.trace.String,
			CatalogID: w.catalog.String, ProductCount: int(w.count.Int32), Config: w.config, Token: w.token.String,
			Attempt: int(w.attempts.Int32), MaxAttempts: int(w.maxAttempts.Int32),
			CreatedAt: w.created.Time, RunAfter: w.runAfter.Time, StartedAt: w.started.Time, LeaseUntil: w.lease.Time,
		})
	}
}

// until turns milliseconds into a wait: -1 for "never", 0 for "now".
func until(ms pgtype.Float8) time.Duration {
	const longest = 24 * time.Hour // a timer beyond a day is as good as one of a day
	switch {
	case !ms.Valid:
		return -1
	case ms.Float64 <= 0:
		return 0
	case ms.Float64 >= float64(longest.Milliseconds()):
		return longest
	}
	return time.Duration(ms.Float64 * float64(time.Millisecond))
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
