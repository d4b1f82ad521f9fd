package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Pressure is what the server says of how well it bears with us.
type Pressure struct {
	NotifyQueue float64 // share of the notification queue in use, 0 to 1: when it is full, commits that notify fail
	Workers     int     // processes whose last beat is recent
	Wanting     int     // of these, those that want to be told of jobs
	Oldest      Snapshot
}

// Snapshot is the oldest one of the database besides our own: no row that was deleted or updated since it was taken can be
// removed, and every look at the table passes over them. The zero value says that there is none.
type Snapshot struct {
	PID         int           // 0 for a prepared transaction, and for a replication slot whose standby is away
	Horizon     string        // what it holds; "" when there is no snapshot
	XIDs        int64         // transactions begun since
	Age         time.Duration // of its transaction; negative when there is none, or this role may not see it: that takes pg_read_all_stats
	Application string        // of a prepared transaction or replication slot, its name
	User, State string        // State is "" when this role may not see it; else that of the session, prepared, replication slot or standby
}

// Pressure asks the server.
func (s *Store) Pressure(ctx context.Context) (p Pressure, err error) {
	ctx, done := s.bound(ctx)
	defer done()
	var pid *int
	var horizon *string
	var xids *int64
	var age *float64
	o := &p.Oldest
	err = s.cfg.DB.QueryRow(ctx, s.sql.pressure).Scan(&p.NotifyQueue, &p.Workers, &p.Wanting, &pid, &horizon, &xids, &age, &o.Application, &o.User, &o.State)
	if err != nil {
		return Pressure{}, fmt.Errorf("pressure: %w", err)
	}
	o.PID, o.Horizon, o.XIDs = deref(pid), deref(horizon), deref(xids)
	switch {
	case age != nil:
		o.Age = time.Duration(max(*age, 0) * float64(time.Second))
	case horizon != nil:
		o.Age = -1
	}
	return p, nil
}

// MaxAdditions is what Additions counts at most.
const MaxAdditions = 100_000

// Additions returns how many rows wait to join a job, at most MaxAdditions, and the age of the oldest of them.
func (s *Store) Additions(ctx context.Context) (n int64, oldest time.Duration, err error) {
	ctx, done := s.bound(ctx)
	defer done()
	var seconds float64
	if err := s.cfg.DB.QueryRow(ctx, s.sql.additions, MaxAdditions).Scan(&n, &seconds); err != nil {
		return 0, 0, fmt.Errorf("additions: %w", err)
	}
	return n, time.Duration(max(seconds, 0) * float64(time.Second)), nil
}

// ErrReadOnly says that the server answers and takes no writes: a standby, or one that is set so.
var ErrReadOnly = errors.New("the server is read-only")

// ErrNoRights says that the role lacks rights on the tables.
var ErrNoRights = errors.New("permission denied")

// Writable asks whether the server answers and would take what a worker writes: nil, ErrReadOnly or ErrNoRights with the
// particulars, or the error of asking.
func (s *Store) Writable(ctx context.Context) error {
	ctx, done := s.bound(ctx)
	defer done()
	var readOnly bool
	var why, denied string
	err := s.cfg.DB.QueryRow(ctx, s.sql.writable).Scan(&readOnly, &why, &denied)
	switch {
	case err != nil:
		return fmt.Errorf("ask the database: %w", err)
	case readOnly:
		return fmt.Errorf("%w: %s", ErrReadOnly, why)
	case denied != "":
		return fmt.Errorf("%w: the role may not read and change %s", ErrNoRights, denied)
	}
	if _, err := s.cfg.DB.Exec(ctx, s.sql.touch); err != nil {
		return fmt.Errorf("ask the table of jobs: %w", err)
	}
	return nil
}
