package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// The schedules here are those that the model (integration/model/locks) found and that lie within one call, where no step of
// another session can be placed from outside. So the call's function is given a place to pause.

// pauseAfter makes a function stop after anchor, once in each session that has set test.pause, until nobody holds advisory
// lock 1 any more.
func (tb *table) pauseAfter(function, anchor string) {
	tb.t.Helper()
	def := one[string](tb, `SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1`, function)
	before, after, found := strings.Cut(def, anchor)
	if !found {
		tb.t.Fatalf("%s has no %q any more: find the same place anew", function, anchor)
	}
	tb.exec(before + anchor + `
        IF current_setting('test.pause', true) = 'on' THEN
            PERFORM set_config('test.pause', 'off', false);
            PERFORM pg_advisory_xact_lock_shared(1);
            PERFORM WHERE false; -- what the look before it has found
        END IF;` + after)
}

// doing runs a statement in the background; the error comes when it is over.
func doing(c *pgx.Conn, sql string, args ...any) <-chan error {
	over := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), sql, args...)
		over <- err
	}()
	return over
}

// soon fails the test when a statement isn't over in good time.
func (tb *table) soon(over <-chan error, what string) {
	tb.t.Helper()
	select {
	case err := <-over:
		if err != nil {
			tb.t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		tb.t.Fatalf("%s waits for an open transaction", what)
	}
}

const enqueueC = `SELECT notifyworker.enqueue_price_refresh('c', $1::text::jsonb)`

// An enqueue has seen no waiting job; one is committed, and a client that stays open cancels it. Had the enqueue not looked
// again once it had "creating", its INSERT would wait for the cancel's transaction on the unique index.
func TestAnEnqueueLooksAgainWhenItMayCreateTheJob(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.pauseAfter("add_price_refresh", "AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH';")
	gate, first, second, canceller := tb.begin("READ COMMITTED"), tb.begin("READ COMMITTED"), tb.db.Conn(t), tb.begin("READ COMMITTED")
	tb.run(gate, `SELECT pg_advisory_xact_lock(1)`)
	tb.run(first, enqueueC, `["p1"]`)
	tb.run(second, `SET test.pause = 'on'`)
	over := doing(second, enqueueC, `["p2"]`)
	pgtest.WaitBlocked(t, tb.db.Conn(t), second.PgConn().PID())
	tb.commit(first)
	job := one[int64](tb, `SELECT id FROM notifyworker.jobs`)
	tb.run(canceller, `SELECT notifyworker.cancel($1)`, job)
	tb.commit(gate)
	tb.soon(over, "the enqueue")
	tb.commit(canceller)
	tb.sound()
	tb.due()
	if got := tb.ids(tb.reserveOne().ID); got != `["p2"]` {
		t.Errorf("the next job has %s", got)
	}
}

// An enqueue has "creating" and is about to insert the job, and a plain INSERT comes between: it can't get "creating", and is the one
// thing that an enqueue may still meet on the unique index. It waits, as the INSERT would, and joins.
func TestAnEnqueueThatMeetsAPlainInsertOnTheIndexJoinsIt(t *testing.T) {
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		tb := newTable(t, queue.Config{})
		tb.pauseAfter("add_price_refresh", "mark := NOT first;")
		tb.overtaken(enqueueC, `["added"]`)(end)
		want := map[string]string{"COMMIT": `["plain", "added"]`, "ROLLBACK": `["added"]`}[end]
		if j := tb.reserveOne(); tb.ids(j.ID) != want {
			t.Errorf("%s: got %s, want %s", end, tb.ids(j.ID), want)
		}
		tb.sound()
	}
}

// So does a replay that is about to make its job PENDING: it waits, and is merged instead of failing with 23505.
func TestAReplayThatMeetsAPlainInsertIsMerged(t *testing.T) {
	tb := newTable(t, queue.Config{})
	dead := tb.enqueue("c", `["p1"]`)
	tb.exec(`SELECT notifyworker.cancel($1)`, dead)
	tb.exec(`DELETE FROM notifyworker.jobs WHERE successor`)
	tb.pauseAfter("requeue", "may_return(a.tenant_id, a.catalog_id, p_cause = 'replayed') THEN")
	tb.overtaken(`SELECT notifyworker.replay($1)`, dead)("COMMIT")
	if into := tb.into(dead); into == 0 || tb.status(dead) != "COMPLETED" {
		t.Errorf("the replayed job is %s, merged into %d", tb.status(dead), into)
	}
	tb.sound()
}

// overtaken lets a plain INSERT of catalog c come between a call's two steps. The call then waits for it, until end does.
func (tb *table) overtaken(call string, args ...any) (end func(how string)) {
	tb.t.Helper()
	gate, plain, caller := tb.begin(readCommitted), tb.hurried(tb.begin(readCommitted)), tb.db.Conn(tb.t)
	tb.run(gate, `SELECT pg_advisory_xact_lock(1)`)
	tb.run(caller, `SET test.pause = 'on'`)
	over := doing(caller, call, args...)
	pgtest.WaitBlocked(tb.t, tb.db.Conn(tb.t), caller.PgConn().PID())
	tb.run(plain, plainC)
	tb.commit(gate)
	pgtest.WaitBlocked(tb.t, tb.db.Conn(tb.t), caller.PgConn().PID())
	return func(how string) {
		tb.t.Helper()
		tb.run(plain, how)
		tb.soon(over, "the call")
	}
}

// A replay has looked, and seen that nothing waits: until it has written, nobody else may return a job of the catalog.
func TestAReplayThatIsAboutToReturnMakesARequeueMerge(t *testing.T) {
	tb := newTable(t, queue.Config{})
	dead := tb.enqueue("c", `["p1"]`)
	if out := tb.requeue(tb.reserveOne(), queue.CausePermanent); out.Verdict != queue.Dead {
		t.Fatalf("got %+v", out)
	}
	tb.enqueue("c", `["p2"]`)
	runs := tb.reserveOne()
	tb.pauseAfter("requeue", "may_return(a.tenant_id, a.catalog_id, p_cause = 'replayed') THEN")
	gate, replayer := tb.begin("READ COMMITTED"), tb.db.Conn(t)
	tb.run(gate, `SELECT pg_advisory_xact_lock(1)`)
	tb.run(replayer, `SET test.pause = 'on'`)
	over := doing(replayer, `SELECT notifyworker.replay($1)`, dead)
	pgtest.WaitBlocked(t, tb.db.Conn(t), replayer.PgConn().PID())
	if out := tb.requeue(runs, queue.CauseRefused); out.Verdict != queue.Merged {
		t.Errorf("got %+v", out)
	}
	tb.commit(gate)
	tb.soon(over, "the replay")
	tb.due()
	if j := tb.reserveOne(); j.ID != dead || tb.ids(dead) != `["p1", "p2"]` || tb.into(runs.ID) != dead {
		t.Errorf("job %d has %s; job %d was merged into %d", j.ID, tb.ids(j.ID), runs.ID, tb.into(runs.ID))
	}
	tb.sound()
}

// A REPEATABLE READ enqueue looks at nothing, so no lock would tell it anything; while it is open, reservations need leave no
// successor for it.
func TestAnEnqueueWithAnOldSnapshotCostsNoSuccessors(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.enqueue("c", `["p1"]`)
	tx := tb.begin("REPEATABLE READ")
	tb.run(tx, enqueueC, `["p2"]`)
	tb.complete(tb.reserveOne())
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 0 {
		t.Errorf("%d jobs wait for it", n)
	}
	tb.commit(tx)
	if got := tb.ids(tb.reserveOne().ID); got != `["p2"]` {
		t.Errorf("the next job has %s", got)
	}
	tb.sound()
}
