package integration

import (
	"context"
	"errors"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What the first generation's protocol does in the schedules for which the default one was made.

// later runs a statement that is going to wait, and returns when it waits.
func (tb *table) later(observer *pgx.Conn, sql string, args ...any) (end func() error) {
	tb.t.Helper()
	c := tb.db.Conn(tb.t)
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), sql, args...)
		done <- err
	}()
	pgtest.WaitBlocked(tb.t, observer, c.PgConn().PID())
	return func() error { return <-done }
}

func TestUnderVariantCTEASecondWaitingJobIsBornOfAnEnqueueThatWaitsForAReservation(t *testing.T) {
	tb := newTable(t, queue.Config{}, pgtest.Variant("cte"))
	a := tb.enqueue("c", `["p1"]`)
	worker := tb.begin("READ COMMITTED")
	tb.run(worker, `SELECT notifyworker.reserve(1, gen_random_uuid(), 60000)`)
	observer := tb.db.Conn(t)
	end := tb.later(observer, `SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
	tb.commit(worker)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if s := tb.status(a); s != "RUNNING" || tb.ids(a) != `["p1"]` {
		t.Errorf("the first job is %s with %s", s, tb.ids(a))
	}
	if ids := one[string](tb, `SELECT (config -> 'productIds')::text FROM notifyworker.jobs WHERE status = 'PENDING'`); ids != `["p2"]` {
		t.Errorf("the second has %s", ids)
	}
}

// The race that is left: a first job is open when the requeue looks, and committed before it writes.
func raceOfRequeueAndFirstEnqueue(t *testing.T, variant string) (*table, queue.Job, func() (queue.Returned, error)) {
	tb := newTable(t, queue.Config{}, pgtest.Variant(variant))
	tb.enqueue("c", `["p1"]`)
	j := tb.reserveOne()
	client := tb.begin("READ COMMITTED")
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
	return tb, j, func() (queue.Returned, error) {
		observer, worker := tb.db.Conn(t), tb.db.Conn(t)
		st, err := queue.New(queue.Config{DB: worker, WorkerID: workerID})
		if err != nil {
			t.Fatal(err)
		}
		type end struct {
			out queue.Returned
			err error
		}
		done := make(chan end, 1)
		go func() {
			out, err := st.Requeue(context.Background(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: "not now"})
			done <- end{out, err}
		}()
		if variant == "cte" {
			pgtest.WaitBlocked(t, observer, worker.PgConn().PID())
			tb.commit(client)
		}
		e := <-done // under advisory it waits for nobody, so it ends while the client's transaction is open
		if variant != "cte" {
			tb.commit(client)
		}
		return e.out, e.err
	}
}

func TestTheRaceThatVariantCTELeavesRaises23505AndLeavesTheJobRunning(t *testing.T) {
	tb, j, requeue := raceOfRequeueAndFirstEnqueue(t, "cte")
	_, err := requeue()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23505" {
		t.Fatalf("got %v, want 23505", err)
	}
	if s := tb.status(j.ID); s != "RUNNING" {
		t.Errorf("the job is %s", s)
	}
	// It is not lost: the next try, by its worker or a rescue, merges.
	if out := tb.requeue(j, queue.CauseRefused); out.Verdict != queue.Merged {
		t.Errorf("the next try: %+v", out)
	}
}

func TestTheSameScheduleUnderTheDefaultProtocolMergesWithoutWaiting(t *testing.T) {
	tb, j, requeue := raceOfRequeueAndFirstEnqueue(t, "advisory")
	out, err := requeue()
	if err != nil || out.Verdict != queue.Merged {
		t.Fatalf("got %+v, %v", out, err)
	}
	taker := tb.reserveOne()
	if tb.into(j.ID) != taker.ID || tb.ids(taker.ID) != `["p2", "p1"]` {
		t.Errorf("merged into %d; job %d has %s", tb.into(j.ID), taker.ID, tb.ids(taker.ID))
	}
}
