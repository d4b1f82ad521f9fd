package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// handsTimeout ends a call on the connection of the hands that the server doesn't answer: others take over what was handed to a
// worker that does not take it, so there is nothing to wait for.
const handsTimeout = 2 * time.Second

// hands is the session by which a worker takes what commits hand to it. The session's locks say that it lives, and which jobs it
// has taken; so it can't be a pool's, nor lead through a transaction pooler. One goroutine uses it.
type hands struct {
	conn *pgx.Conn
	key  int32   // its own, never used before; commits look for the lock of it
	done []int64 // jobs whose locks are to be given back
}

// Handed is a job that a commit handed to this worker, which has taken it.
type Handed struct {
	Job
	Lease time.Duration // how much of it is left, at least

	session int32 // which keeps others from taking it over
}

var errThroughPooler = errors.New("a pooler answers in the server's place: jobs can't be handed over through it")

// askHands makes sure that there is a session that still lives, since a commit finds nobody behind one that has ended. It returns what
// a commit has to know to hand this worker a job.
func (s *Store) askHands(ctx context.Context) (string, error) {
	ctx, done := context.WithTimeout(ctx, handsTimeout)
	defer done()
	if s.hands.conn != nil {
		ping, end := context.WithTimeout(ctx, pingTimeout)
		err := s.hands.conn.Ping(ping)
		end()
		if err != nil {
			s.CloseHands()
		}
	}
	if err := s.openHands(ctx); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{
		"key": s.hands.key, "lease": s.Settings("").Lease.Milliseconds(), "leases": json.RawMessage(s.leases), "ids": min(s.cfg.MaxIDs, mostHandedIDs),
	})
	return string(text), err
}

// openHands makes sure that there is a session.
func (s *Store) openHands(ctx context.Context) error {
	if s.hands.conn != nil && !s.hands.conn.IsClosed() {
		return nil
	}
	err := s.newHands(ctx)
	if err != nil {
		s.CloseHands()
	}
	return err
}

// mostHandedIDs bounds what the commit of a client is made to look through.
const mostHandedIDs = 1000

func (s *Store) newHands(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.cfg.Hands)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.hands = hands{conn: conn, done: []int64{}}
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return fmt.Errorf("ask which session it is: %w", err)
	}
	if pid != conn.PgConn().PID() {
		return errThroughPooler
	}
	for had := false; !had; {
		s.hands.key = rand.Int32()
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(1853292549, $1)", s.hands.key).Scan(&had); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
	}
	return nil
}

// CloseHands ends the session of the hands, if there is one: then nothing can be handed to this worker.
func (s *Store) CloseHands() {
	if s.hands.conn == nil {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	_ = s.hands.conn.Close(ctx)
	select {
	case <-s.hands.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
	s.hands = hands{}
}

// Take takes jobs that were handed to this worker, in one round trip. Those that somebody else has by now are not among the answers;
// those that somebody looks after this very moment come back as again. After an error nothing was taken; ask again. From then on
// nobody takes a job over, until Let. Without ids it asks whether the session is there.
func (s *Store) Take(ctx context.Context, ids []int64) (taken []Handed, again []int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, handsTimeout)
	defer cancel()
	if err := s.openHands(ctx); err != nil {
		return nil, nil, fmt.Errorf("take what was handed over: %w", err)
	}
	if ids == nil {
		ids = []int64{} // else NULL
	}
	if taken, again, err = s.take(ctx, ids); err != nil {
		s.CloseHands()
		return nil, nil, fmt.Errorf("take what was handed over: %w", err)
	}
	return taken, again, nil
}

func (s *Store) take(ctx context.Context, ids []int64) (taken []Handed, again []int64, err error) {
	done := s.hands.done
	rows, err := s.hands.conn.Query(ctx, s.sql.take, ids, s.cfg.WorkerID, done)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var r Reservation
	for rows.Next() {
		if err := s.scan(rows, &r); err != nil {
			return nil, nil, err
		}
		if n := len(r.Jobs); n > len(taken) {
			taken = append(taken, Handed{r.Jobs[n-1], r.look, s.hands.key})
		}
	}
	s.hands.done = s.hands.done[len(done):]
	return taken, r.again, rows.Err()
}

// Let says that a job that was taken is this worker's no more. The lock of it is given back by the next Take.
func (s *Store) Let(h Handed) {
	if h.session == s.hands.key { // else it went with its session
		s.hands.done = append(s.hands.done, h.ID)
	}
}

// Mine returns the jobs that are RUNNING for this worker, as the table has it: those that it was handed, and was not told of, are
// among them.
func (s *Store) Mine(ctx context.Context) ([]int64, error) {
	ctx, done := s.bound(ctx)
	defer done()
	ids, err := s.collect(ctx, s.sql.mine, s.cfg.WorkerID)
	if err != nil {
		return nil, fmt.Errorf("ask what this worker has: %w", err)
	}
	return ids, nil
}

// TakeOver takes over at most n of these jobs, those that were handed to other workers which live and have not taken them. When ids is
// nil, it looks at all jobs that were handed over for a while.
func (s *Store) TakeOver(ctx context.Context, ids []int64, n int) ([]Job, error) {
	ctx, done := s.bound(ctx)
	defer done()
	rows, err := s.cfg.DB.Query(ctx, s.sql.takeOver, n, ids, s.cfg.WorkerID, s.Settings("").Lease.Milliseconds(), s.leases)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	defer rows.Close()
	var r Reservation
	for rows.Next() {
		if err := s.scan(rows, &r); err != nil {
			return nil, fmt.Errorf("take over: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	return r.Jobs, nil
}
