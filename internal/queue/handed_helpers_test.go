package queue_test

import (
	"context"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// newHandedTable is a table whose Store sleeps: commits hand it their jobs.
func newHandedTable(t testing.TB, change ...func(*queue.Config)) table {
	t.Helper()
	return newHandedTableIn(t, pgtest.DB(t), change...)
}

func newHandedTableIn(t testing.TB, db *pgtest.Database, change ...func(*queue.Config)) table {
	t.Helper()
	tb := newTableIn(t, db, change...)
	tb.sleeps(tb.Store)
	return tb
}

// opens gives the worker a session by which it takes what is handed to it. The locks of jobs that are over are given back by the next
// take.
func (tb table) opens(s *queue.Store) *pgx.Conn {
	tb.t.Helper()
	s.LetEach()
	conn := tb.conn()
	if err := s.OpenHands(context.Background(), conn); err != nil {
		tb.t.Fatal(err)
	}
	return conn
}

// sleeps makes commits hand their jobs to the worker.
func (tb table) sleeps(s *queue.Store) {
	tb.t.Helper()
	tb.opens(s)
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
func (tb table) take(ids ...int64) (taken []queue.Handed) {
	tb.t.Helper()
	for _, id := range ids {
		h, again, err := tb.Take(context.Background(), id)
		if err != nil || again || h == nil || h.ID != id {
			tb.t.Fatalf("took %+v of %d, again %v, %v", h, id, again, err)
		}
		taken = append(taken, *h)
	}
	return taken
}

// takesNothing wants none of these jobs to be the worker's, nor to become so by asking again.
func takesNothing(t testing.TB, s *queue.Store, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if h, again, err := s.Take(context.Background(), id); err != nil || again || h != nil {
			t.Errorf("took %+v of %d, again %v, %v", h, id, again, err)
		}
	}
}

// own are these jobs with the tokens that they have.
func (tb table) own(ids ...int64) (all []queue.Own) {
	tb.t.Helper()
	for _, id := range ids {
		own := queue.Own{ID: id, Token: workerA}
		if value[bool](tb, `SELECT EXISTS (SELECT FROM notifyworker.jobs WHERE id = $1 AND lock_token IS NOT NULL)`, id) {
			own.Token = tb.token(id)
		}
		all = append(all, own)
	}
	return all
}

// takesBack takes back what it can of these jobs, and wants exactly so many.
func (tb table) takesBack(want int, ids ...int64) []queue.Job {
	tb.t.Helper()
	js, again, err := tb.TakeBack(tb.t.Context(), tb.own(ids...))
	if err != nil || len(js) != want || len(again) > 0 {
		tb.t.Fatalf("took back %+v of %d, again %d, %v, want %d", js, ids, again, err, want)
	}
	return js
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
