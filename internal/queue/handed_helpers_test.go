package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// withHands lets a Store on a pool take what commits hand to it.
func withHands(c *queue.Config) { c.Hands = c.DB.(*pgxpool.Pool).Config().ConnConfig }

// newHandedTable is a table whose Store sleeps: commits hand it their jobs.
func newHandedTable(t testing.TB, change ...func(*queue.Config)) table {
	t.Helper()
	return newHandedTableIn(t, pgtest.DB(t), change...)
}

func newHandedTableIn(t testing.TB, db *pgtest.Database, change ...func(*queue.Config)) table {
	t.Helper()
	tb := newTableIn(t, db, append([]func(*queue.Config){withHands}, change...)...)
	tb.sleeps(tb.Store)
	return tb
}

// sleeps makes commits hand their jobs to the worker.
func (tb table) sleeps(s *queue.Store) {
	tb.t.Helper()
	tb.t.Cleanup(s.CloseHands)
	if err := s.Register(context.Background(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
		tb.t.Fatal(err)
	}
	tb.wants(s)
}

// wants says anew that commits shall hand the worker their jobs. Until the barrier, those under way may not.
func (tb table) wants(s *queue.Store) {
	tb.t.Helper()
	if refused, err := s.WantNotify(context.Background(), true, true); refused != nil || err != nil {
		tb.t.Fatal(refused, err)
	}
	if ok, err := s.Barrier(context.Background()); !ok || err != nil {
		tb.t.Fatal(ok, err)
	}
}

// other is the Store of another worker, one that doesn't sleep.
func (tb table) other(db queue.DB, change ...func(*queue.Config)) *queue.Store {
	tb.t.Helper()
	cfg := queue.Config{DB: db, WorkerID: workerB}
	for _, c := range change {
		c(&cfg)
	}
	s, err := queue.New(cfg)
	if err != nil {
		tb.t.Fatal(err)
	}
	return s
}

// handed enqueues a job that is handed over.
func (tb table) handed(kind string) int64 {
	tb.t.Helper()
	id := value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job($1)`, kind)
	tb.runsFor(workerA, id)
	return id
}

// runsFor wants a job to be RUNNING for a worker.
func (tb table) runsFor(worker string, id int64) {
	tb.t.Helper()
	if got := value[string](tb, `SELECT status || ' ' || coalesce(worker_id::text, '') FROM notifyworker.jobs WHERE id = $1`, id); got != "RUNNING "+worker {
		tb.t.Fatalf("job %d is %s, want it RUNNING for %s", id, got, worker)
	}
}

// take takes these jobs, and wants exactly them.
func (tb table) take(ids ...int64) []queue.Handed {
	tb.t.Helper()
	taken, again, err := tb.Take(context.Background(), ids)
	if err != nil || len(again) > 0 || !slices.EqualFunc(taken, ids, func(h queue.Handed, id int64) bool { return h.ID == id }) {
		tb.t.Fatalf("took %+v of %d, again %d, %v", taken, ids, again, err)
	}
	return taken
}

// takesNothing wants none of these jobs to be the worker's, nor to become so by asking again.
func takesNothing(t testing.TB, s *queue.Store, ids ...int64) {
	t.Helper()
	if taken, again, err := s.Take(context.Background(), ids); err != nil || len(taken)+len(again) > 0 {
		t.Errorf("took %+v of %d, again %d, %v", taken, ids, again, err)
	}
}

// givesBack lets the worker give back the locks of jobs that it has let go: any call does.
func (tb table) givesBack() {
	tb.t.Helper()
	takesNothing(tb.t, tb.Store, 0)
}

// takenLocks counts the locks that say that a job has been taken.
func (tb table) takenLocks() int {
	tb.t.Helper()
	return value[int](tb, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
}

// endHands ends the session of the hands, as a restarted server or a network does.
func (tb table) endHands() {
	tb.t.Helper()
	n := value[int](tb, `WITH hands AS MATERIALIZED (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 1853292549 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
		SELECT count(*) FROM hands WHERE pg_terminate_backend(pid, 60000)`)
	if n != 1 {
		tb.t.Fatalf("ended %d sessions", n)
	}
}

// ear hears what commits notify.
type ear struct {
	table
	conn *pgx.Conn
}

func (tb table) listen() ear {
	tb.t.Helper()
	e := ear{tb, tb.conn()}
	if _, err := e.conn.Exec(context.Background(), `LISTEN notifyworker`); err != nil {
		tb.t.Fatal(err)
	}
	return e
}

// heard returns all that was notified up to now.
func (e ear) heard() (payloads []string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e.exec(`SELECT pg_notify('notifyworker', 'the end')`)
	for {
		n, err := e.conn.WaitForNotification(ctx)
		if err != nil {
			e.t.Fatal(err)
		}
		if n.Payload == "the end" {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}
