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
)

const (
	// handsTimeout ends a call on the session of the hands that the server doesn't answer: others take over what was handed to a
	// worker that does not take it, so there is nothing to wait for.
	handsTimeout = 2 * time.Second
	// mostHandedIDs bounds what the commit of a client is made to look through.
	mostHandedIDs = 1000
	// letAtOnce locks of jobs that are over are given back by one statement. Until then they are in nobody's way: a job is handed over
	// once, when it is enqueued.
	letAtOnce = 16
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
	errThroughPooler = errors.New("a pooler answers in the server's place: jobs can't be handed over through it")
	errNoHands       = errors.New("no session has been opened that takes what is handed over")
)

// OpenHands makes conn the session by which this process takes what commits hand to it, in place of the one before: from the next
// WantNotify on, they may. It is used in Take alone, so by whose goroutine calls that. When it can't be, WantNotify says so, too.
func (s *Store) OpenHands(ctx context.Context, conn *pgx.Conn) error {
	key, err := openHands(ctx, conn, s.sql.handsKey)
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
		return 0, errThroughPooler
	}
	for had := false; !had; {
		key = rand.Int32()
		if err := conn.QueryRow(ctx, lock, key).Scan(&had, nil, nil); err != nil {
			return 0, fmt.Errorf("lock: %w", err)
		}
	}
	return key, nil
}

// HungUp waits until the session of OpenHands has ended, whose connection was closed, and the commits are over that may have handed this
// process a job before. Then Mine knows of all of them.
func (s *Store) HungUp(ctx context.Context) error {
	s.hands.mu.Lock()
	key, none := s.hands.key, s.hands.refused
	s.hands.refused = errNoHands
	s.hands.mu.Unlock()
	if none != nil {
		return nil
	}
	ended, done := s.bound(ctx)
	defer done()
	if _, err := s.cfg.DB.Exec(ended, s.sql.hungUp, key); err != nil {
		return fmt.Errorf("wait for the end of the session of the hands: %w", err)
	}
	_, err := s.barrier(ctx)
	return err
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
// can't be had this very moment, since somebody looks after it: see TakeBack. From then on nobody takes it over, until Let. After an
// error nothing was taken, and the session is ended.
func (s *Store) Take(ctx context.Context, id int64) (taken *Handed, again bool, err error) {
	conn := s.hands.conn
	if conn == nil {
		return nil, false, fmt.Errorf("take what was handed over: %w", errNoHands)
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
	var done []int64
	if len(s.hands.done) >= s.hands.atOnce {
		done, s.hands.done = s.hands.done, nil
	}
	s.hands.mu.Unlock()
	batch := &pgx.Batch{}
	batch.Queue(s.sql.takeLock, id, s.cfg.WorkerID)
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
	if err != nil {
		return had, r, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := s.scan(rows, &r); err != nil {
			return had, r, err
		}
	}
	return had, r, rows.Err()
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

// TakeBack makes jobs that are RUNNING for this worker, and that its process doesn't have, its own by new tokens, as if Reserve had
// returned them. Those that somebody else has by now are not among the answers; those that can't be had this very moment come back as
// again: somebody looks after them, or a session of this worker's is about to end that has taken them.
func (s *Store) TakeBack(ctx context.Context, ids []int64) (jobs []Job, again []int64, err error) {
	r, err := s.takes(ctx, s.sql.takeBack, ids, s.cfg.WorkerID, s.Settings("").Lease.Milliseconds(), s.leases)
	if err != nil {
		return nil, nil, fmt.Errorf("take back: %w", err)
	}
	return r.Jobs, r.again, nil
}

// TakeOver takes over at most n of these jobs, those that were handed to other workers which live and have not taken them. When ids is
// nil, it looks at all jobs that were handed over for a while.
func (s *Store) TakeOver(ctx context.Context, ids []int64, n int) ([]Job, error) {
	r, err := s.takes(ctx, s.sql.takeOver, n, ids, s.cfg.WorkerID, s.Settings("").Lease.Milliseconds(), s.leases)
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
	if err != nil {
		return r, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := s.scan(rows, &r); err != nil {
			return r, err
		}
	}
	return r, rows.Err()
}
