package integration

import (
	"context"
	"errors"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestABoundedReservationOfMarkedAdditionsKeepsTheIDsThatCallersWereTold(t *testing.T) {
	tb := newTable(t, queue.Config{MaxIDs: 2})
	dead := tb.enqueue("c", `["f1", "f2"]`)
	tb.exec(`SELECT notifyworker.cancel($1)`, dead)
	tb.exec(`DELETE FROM notifyworker.jobs WHERE successor`)
	// The replay's ids wait as a marked addition that nobody was told a job id of; then one whose caller was.
	tx := tb.begin("REPEATABLE READ")
	tb.run(tx, `SELECT notifyworker.replay($1)`, dead)
	tb.commit(tx)
	told := tb.enqueueRR("c", `["p1"]`)
	first, second := tb.reserve(1)[0], tb.reserve(1)[0]
	tb.complete(first, second)
	if got := tb.ids(first.ID) + tb.ids(second.ID); got != `["f1", "f2"]["p1"]` {
		t.Errorf("got %s", got)
	}
	if tb.into(dead) != first.ID {
		t.Errorf("the replayed job says it was merged into %d, want %d", tb.into(dead), first.ID)
	}
	if told != second.ID {
		t.Errorf("the caller was told of job %d, its ids went with %d", told, second.ID)
	}
	tb.sound()
}

func TestMoreEmptyAdditionsThanAReservationTakesAreNotLeftBehind(t *testing.T) {
	tb := newTable(t, queue.Config{MaxIDs: 2})
	for range 6 {
		tb.exec(`SELECT notifyworker.enqueue_full_refresh('c')`)
	}
	for range 3 {
		tb.complete(tb.reserve(10)...)
		tb.sound()
		tb.due()
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`); n != 0 {
		t.Errorf("%d additions are left", n)
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 0 {
		t.Errorf("%d jobs wait", n)
	}
}

// Two folds of one catalog may be under way at once: that of marked additions, and that of a job which was enqueued since. Both may
// have more ids than a job takes, and put the rest back.
func TestTwoFoldsOfACatalogPutBackWhatIsTooMuch(t *testing.T) {
	tb := newTable(t, queue.Config{MaxIDs: 2})
	tb.enqueueRR("c", `["m1", "m2", "m3", "m4", "m5"]`)
	first := tb.begin(readCommitted)
	tb.run(first, `SELECT notifyworker.reserve(1, gen_random_uuid(), 60000, p_max_ids => 2)`)
	tb.enqueue("c", `["p1", "p2", "p3", "p4", "p5"]`)
	if j := tb.reserve(1); len(j) != 1 || tb.ids(j[0].ID) != `["p1", "p2"]` {
		t.Fatalf("got %+v", j)
	}
	tb.commit(first)
	tb.sound()
	ids := map[string]int{}
	for range 6 {
		tb.due()
		for _, j := range tb.reserve(10) {
			ids[tb.ids(j.ID)]++
			tb.complete(j)
		}
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`); n != 0 || len(ids) != 3 {
		t.Errorf("%d additions are left, and jobs had %v", n, ids)
	}
}

func TestAnAdditionThatSomebodyHasLockedWaitsForASuccessor(t *testing.T) {
	tb := newTable(t, queue.Config{})
	a := tb.enqueue("c", `["p1"]`)
	tb.enqueue("c", `["p2"]`)
	tb.enqueue("c", `["p3"]`)
	psql := tb.begin("READ COMMITTED")
	tb.run(psql, `SELECT FROM notifyworker.job_additions WHERE product_ids = '["p2"]' FOR UPDATE`)
	tb.complete(tb.reserveOne())
	if got := tb.ids(a); got != `["p1", "p3"]` {
		t.Errorf("got %s", got)
	}
	tb.sound()
	for range 3 {
		tb.due()
		if jobs := tb.reserve(10); len(jobs) != 0 {
			t.Fatalf("nothing can be taken, and a job with %s was reserved", jobs[0].Config)
		}
	}
	tb.commit(psql)
	tb.due()
	j := tb.reserveOne()
	if got := tb.ids(j.ID); got != `["p2"]` {
		t.Errorf("got %s", got)
	}
}

func TestARowThatSomebodyHasLockedDoesNotHoldUpWhoTookItsIDs(t *testing.T) {
	for _, c := range []struct {
		name, lock string
		locks      bool
	}{
		{"locked by hand", `SELECT FROM notifyworker.jobs WHERE id = $1 FOR UPDATE`, true},
		{"by a cancel that came too late", `SELECT notifyworker.cancel($1)`, false},
		{"by a replay that was not needed", `SELECT notifyworker.replay($1)`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := newTable(t, queue.Config{})
			a := tb.enqueue("c", `["p1"]`)
			j := tb.reserveOne()
			// A first enqueue is open, so the requeued ids wait as a marked addition: the job does not know yet whose they are.
			client := tb.begin("READ COMMITTED")
			tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
			if out := tb.requeue(j, queue.CauseRefused); out.Verdict != queue.Merged || out.MergedInto != 0 {
				t.Fatalf("got %+v", out)
			}
			psql := tb.begin("READ COMMITTED")
			tb.run(psql, c.lock, a)
			tb.exec(`SET lock_timeout = '2s'`) // whoever waits for psql fails at once
			tb.due()
			taker := tb.reserveOne()
			if !c.locks && tb.into(a) != taker.ID {
				t.Errorf("job %d was told nothing: its row is locked by a call that had nothing to do with it", a)
			}
			tb.commit(psql)
			tb.sound()
			if got := tb.ids(taker.ID); got != `["p1"]` || tb.into(a) != taker.ID {
				t.Errorf("job %d says that %d has its ids; it was %d, with %s", a, tb.into(a), taker.ID, got)
			}
			if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`); n != 0 {
				t.Errorf("%d additions are left", n)
			}
			tb.commit(client)
		})
	}
}

func TestACancelTakesAlongTheIDsThatHaveJoined(t *testing.T) {
	tb := newTable(t, queue.Config{})
	a := tb.enqueue("c", `["p1"]`)
	tb.enqueue("c", `["p2"]`)
	tb.enqueueRR("c", `["p3"]`)
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p4"]')`)
	tb.exec(`SELECT notifyworker.cancel($1)`, a)
	tb.commit(client)
	if got := tb.ids(a); tb.status(a) != "FAILED" || got != `["p1", "p2", "p3"]` {
		t.Errorf("job %d is %s with %s", a, tb.status(a), got)
	}
	tb.sound()
	tb.due()
	if j := tb.reserveOne(); tb.ids(j.ID) != `["p4"]` {
		t.Errorf("what was under way is a job with %s", tb.ids(j.ID))
	}
}

func TestACancelThatWaitedForTheJobsEndLeavesIt(t *testing.T) {
	tb := newTable(t, queue.Config{})
	a := tb.enqueue("c", `["p1"]`)
	j := tb.reserveOne()
	holder := tb.begin(readCommitted)
	tb.run(holder, `SELECT FROM notifyworker.jobs WHERE id = $1 FOR UPDATE`, a)
	canceller, said := tb.db.Conn(t), make(chan string, 1)
	go func() {
		var outcome string
		if err := canceller.QueryRow(context.Background(), `SELECT notifyworker.cancel($1)`, a).Scan(&outcome); err != nil {
			outcome = err.Error()
		}
		said <- outcome
	}()
	pgtest.WaitBlocked(t, tb.db.Conn(t), canceller.PgConn().PID())
	st, err := queue.New(queue.Config{DB: holder, WorkerID: workerID})
	if err != nil {
		t.Fatal(err)
	}
	if err := complete(t.Context(), st, []queue.Job{j}); err != nil {
		t.Fatal(err)
	}
	tb.commit(holder)
	if got := <-said; got != "finished" || tb.status(a) != "COMPLETED" {
		t.Errorf("the cancel says %s, the job is %s", got, tb.status(a))
	}
}

func TestAMarkedAdditionOfATenantThatIsNotThereIsRefused(t *testing.T) {
	tb := newTable(t, queue.Config{})
	c := tb.begin(repeatableRead)
	_, err := c.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh('c', '["p"]', tenant_id => $1)`, otherTenant)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23503" || pg.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func TestCatalogsOfOneStripeCostEachOtherASuccessorAndNothingElse(t *testing.T) {
	tb := newTable(t, queue.Config{})
	near := tb.neighbour("c")
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh($1, '["n1"]')`, near)
	tb.enqueue("c", `["p1"]`) // "creating" is the neighbour's: a marked addition
	j := tb.reserveOne()
	if out := tb.requeue(j, queue.CauseRefused); out.Verdict != queue.Merged {
		t.Errorf("got %+v", out)
	}
	tb.due()
	again := tb.reserveOne()
	if tb.ids(again.ID) != `["p1"]` || tb.into(j.ID) != again.ID {
		t.Errorf("job %d has %s; job %d says that %d has its ids", again.ID, tb.ids(again.ID), j.ID, tb.into(j.ID))
	}
	tb.complete(again)
	tb.commit(client)
	tb.complete(tb.reserveOne())
	tb.sound()
}

func TestManyCatalogsInOneTransactionFitIntoTheLockTable(t *testing.T) {
	tb := newTable(t, queue.Config{})
	n := 20_000
	if testing.Short() {
		n = 5_000
	}
	tb.exec(`SELECT notifyworker.enqueue_price_refreshes((SELECT jsonb_agg(jsonb_build_object('catalogId', 'c' || g, 'productIds', '["p"]'::jsonb)) FROM generate_series(1, $1::int) g))`, n)
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c' || g, '["q"]') FROM generate_series(1, $1::int) g`, n)
	if locks := one[int](tb, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = $1`, client.PgConn().PID()); locks > 2048 {
		t.Errorf("%d catalogs hold %d advisory locks", n, locks)
	}
	r, err := tb.Reserve(context.Background(), 1000)
	if err != nil || len(r.Jobs) != 1000 {
		t.Errorf("reserved %d jobs, %v", len(r.Jobs), err)
	}
	tb.commit(client)
	tb.sound()
	if got := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`); got != n {
		t.Errorf("%d additions, want %d", got, n)
	}
}
