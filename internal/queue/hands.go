package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// handsTimeout ends a call on the session of the hands that the server doesn't answer: others take over what was handed to a
	// worker that does not take it, so there is nothing to wait for.
	handsTimeout = 2 * time.Second
	// mostHandedIDs bounds what the commit of a client is made to look through.
	mostHandedIDs = 1000
	// letAtOnce locks of jobs that are over are given back by one statement. Until then they are in nobody's way: a job is handed over
	// once, when it is enqueued, and of one that was not handed over nobody asks for the lock.
	letAtOnce = 16
	// barrierApart is between the waits for commits that take long.
	barrierApart = 500 * time.Millisecond
)

// hands is the session by which a worker takes what commits hand to it: the one that hears of it, so that no other process has to be
// woken between the notification and the start. The session's locks say that it lives, and which jobs it has taken; so it can't be a
// pool's, nor lead through a transaction pooler.
type hands struct {
	conn *pgx.Conn // used by the one goroutine that calls OpenHands and Take

	mu      sync.Mutex
	key     int32   // its own, never used before; commits look for the lock of it
	refused error   // why there is none; nil: there is
	done    []int64 // jobs whose locks are to be given back
	atOnce  int     // so many or more
}

// Handed is a job that a commit handed to this worker, which has taken it.
type Handed struct {
	Job
	Lease time.Duration // how much of it is left, at least

	session int32 // which keeps others from taking it over
}

var (
	// ErrThroughPooler says that the connection that listens leads through one that is not of session mode, or hides which session it is.
	ErrThroughPooler = errors.New("a pooler answers in the server's place: jobs can't be handed over through it")
	// ErrNoHands says that there is no session by which this process could take what is handed over.
	ErrNoHands = errors.New("no session has been opened that takes what is handed over")
)

// OpenHands makes conn the session by which this process takes what commits hand to it, in place of the one before: from the next
// WantNotify on, they may. It is used in Take alone, so by whose goroutine calls that. When it can't be, WantNotify says so, too.
func (s *Store) OpenHands(ctx context.Context, conn *pgx.Conn) error {
	key, err := openHands(ctx, conn, s.sql.handsKey)
	if err != nil {
		conn = nil
	}
	s.hands.conn = conn
	s.hands.mu.Lock()
	defer s.hands.mu.Unlock()
	s.hands.key, s.hands.refused, s.hands.done = key, err, nil
	return err
}

func openHands(ctx context.Context, conn *pgx.Conn, lock string) (key int32, err error) {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return 0, fmt.Errorf("ask which session it is: %w", err)
	}
	if pid != conn.PgConn().PID() { // settings and locks would stay with a session that others use
		return 0, ErrThroughPooler
	}
	for had := false; !had; {
		key = rand.Int32()
		if err := conn.QueryRow(ctx, lock, key).Scan(&had, nil, nil, nil); err != nil {
			return 0, fmt.Errorf("lock: %w", err)
		}
	}
	return key, nil
}

// HungUp says that the connection of OpenHands was closed. What it returns waits until its session has ended, and the commits are over that
// may have handed this process a job before; for a lease at most. Then Mine knows of all of them.
func (s *Store) HungUp() (wait func(context.Context) error) {
	s.hands.conn = nil
	s.hands.mu.Lock()
	defer s.hands.mu.Unlock()
	key, none := s.hands.key, s.hands.refused
	s.hands.refused = ErrNoHands
	if none != nil {
		return func(context.Context) error { return nil }
	}
	return func(ctx context.Context) error {
		ctx, done := context.WithTimeout(ctx, s.Settings("").Lease)
		defer done()
		for waiting := true; waiting; { // for longer than a wait for a lock may take
			_, err := s.cfg.DB.Exec(ctx, s.sql.hungUp, key)
			var pgErr *pgconn.PgError
			waiting = errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable && ctx.Err() == nil
			if err != nil && !waiting {
				return fmt.Errorf("wait for the end of the session of the hands: %w", err)
			}
		}
		for {
			if ok, err := s.barrier(ctx); ok || err != nil {
				return err
			}
			select { // commits wait for who waits for the barrier
			case <-time.After(barrierApart):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// askHands returns what a commit has to know to hand this worker a job. A commit finds nobody behind a session that has ended.
func (s *Store) askHands() (string, error) {
	s.hands.mu.Lock()
	key, err := s.hands.key, s.hands.refused
	s.hands.mu.Unlock()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{
		"key": key, "lease": s.Settings("").Lease.Milliseconds(), "leases": json.RawMessage(s.leases), "ids": min(s.cfg.MaxIDs, mostHandedIDs),
	})
	return string(text), err
}

// Take takes a job that was handed to this worker, in one round trip. It is nil when somebody else has it by now. Again says that it
// can't be had so, since somebody looks after it or it was handed to an earlier session: see TakeBack. From then on nobody takes it over,
// until Let. After an error nothing was taken, and the session is ended.
func (s *Store) Take(ctx context.Context, id int64) (taken *Handed, again bool, err error) {
	conn := s.hands.conn
	if conn == nil {
		return nil, false, fmt.Errorf("take what was handed over: %w", ErrNoHands)
	}
	ctx, cancel := context.WithTimeout(ctx, handsTimeout)
	defer cancel()
	had, r, err := s.take(ctx, conn, id)
	if err == nil && had && len(r.Jobs) == 0 {
		_, err = conn.Exec(ctx, s.sql.let, []int64{id})
	}
	switch {
	case err != nil: // whatever of it was done
		_ = conn.Close(ctx)
		return nil, false, fmt.Errorf("take what was handed over: %w", err)
	case len(r.Jobs) == 0:
		return nil, false, nil
	case !had:
		return nil, true, nil
	}
	return &Handed{r.Jobs[0], r.look, s.hands.key}, false, nil
}

// take asks for the lock and for the job, and gives back locks when there are many.
func (s *Store) take(ctx context.Context, conn *pgx.Conn, id int64) (had bool, r Reservation, err error) {
	s.hands.mu.Lock()
	key, done := s.hands.key, []int64(nil)
	if len(s.hands.done) >= s.hands.atOnce {
		done, s.hands.done = s.hands.done, nil
	}
	s.hands.mu.Unlock()
	batch := &pgx.Batch{}
	batch.Queue(s.sql.takeLock, id, s.cfg.WorkerID, key)
	batch.Queue(s.sql.takeLook, id, s.cfg.WorkerID)
	if len(done) > 0 {
		batch.Queue(s.sql.let, done)
	}
	results := conn.SendBatch(ctx, batch)
	defer func() {
		if end := results.Close(); err == nil {
			err = end
		}
	}()
	if err := results.QueryRow().Scan(&had); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, r, err
	}
	rows, err := results.Query()
	err = s.read(rows, err, &r)
	return had, r, err
}

// Let says that a job that was taken is this worker's no more. The lock of it is given back with those of others, by a later Take. It
// may be called at any time.
func (s *Store) Let(h Handed) {
	s.hands.mu.Lock()
	defer s.hands.mu.Unlock()
	if s.hands.refused == nil && h.session == s.hands.key { // else it went with its session
		s.hands.done = append(s.hands.done, h.ID)
	}
}

// Own is a job that is RUNNING for this worker.
type Own struct {
	ID    int64
	Token string
}

// Mine returns the jobs that are RUNNING for this worker, as the table has it, in the order of their ids: those that it was handed, and
// was not told of, are among them.
func (s *Store) Mine(ctx context.Context) ([]Own, error) {
	ctx, done := s.bound(ctx)
	defer done()
	rows, err := s.cfg.DB.Query(ctx, s.sql.mine, s.cfg.WorkerID)
	if err == nil {
		var all []Own
		if all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Own]); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("ask what this worker has: %w", err)
}
