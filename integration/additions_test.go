package integration

import (
	"testing"

	"notifyworker/internal/queue"
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
	for _, c := range []struct{ name, lock string }{
		{"locked by hand", `SELECT FROM notifyworker.jobs WHERE id = $1 FOR UPDATE`},
		{"by a cancel that came too late", `SELECT notifyworker.cancel($1)`},
		{"by a replay that was not needed", `SELECT notifyworker.replay($1)`},
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
