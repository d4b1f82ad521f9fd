package integration

import (
	"strings"
	"testing"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

const plainC = `INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": ["plain"]}')`

// neighbour is a catalog of the same lock stripe.
func (tb *table) neighbour(catalog string) string {
	tb.t.Helper()
	return one[string](tb, `SELECT c FROM (SELECT 'n' || g AS c FROM generate_series(1, 100000) g) x
		WHERE notifyworker.catalog_stripe($2, c) = notifyworker.catalog_stripe($2, $1) LIMIT 1`, catalog, queue.DefaultTenant)
}

// A plain INSERT that finds "creating" taken goes on beside whoever has it, for a reason that ends before its own transaction does.
// Whoever comes to the catalog then does not wait for it on the unique index.
func TestAPlainInsertThatMissedCreatingHoldsUpNobody(t *testing.T) {
	for _, reason := range []struct{ name, sql string }{
		{"another catalog of the stripe", `SELECT notifyworker.enqueue_price_refresh($2, '["n"]') FROM (VALUES ($1)) x (c)`},
		{"a transaction whose locks outlast its rows", `SELECT pg_advisory_xact_lock(1853292546, notifyworker.catalog_stripe('00000000-0000-0000-0000-000000000000', $1)) WHERE $2 <> ''`},
	} {
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			t.Run(reason.name+", "+end, func(t *testing.T) {
				t.Parallel()
				tb := newTable(t, queue.Config{})
				runs := tb.reserved("c", `["requeued"]`)
				dead := tb.enqueue("c", `["replayed"]`)
				tb.exec(`SELECT notifyworker.cancel($1)`, dead)
				tb.exec(`DELETE FROM notifyworker.jobs WHERE successor`)
				has, plain := tb.begin(readCommitted), tb.hurried(tb.begin(readCommitted))
				tb.run(has, reason.sql, "c", tb.neighbour("c"))
				tb.run(plain, plainC)
				tb.run(has, `ROLLBACK`)
				caller := tb.hurried(tb.db.Conn(t))
				tb.run(caller, enqueueC, `["added"]`)
				tb.run(caller, `SELECT notifyworker.replay($1)`, dead)
				tb.run(caller, `SELECT notifyworker.requeue($1, 'refused', $2)`, runs.ID, runs.Token)
				tb.run(plain, end)
				tb.due()
				want := map[string]string{"COMMIT": `["plain", "added", "replayed", "requeued"]`, "ROLLBACK": `["added", "replayed", "requeued"]`}[end]
				if j := tb.reserveOne(); tb.ids(j.ID) != want || tb.into(dead) != j.ID || tb.into(runs.ID) != j.ID {
					t.Errorf("job %d has %s, want %s; the others say %d and %d", j.ID, tb.ids(j.ID), want, tb.into(dead), tb.into(runs.ID))
				}
				tb.sound()
			})
		}
	}
}

// An enqueue that did meet one, in the moment in which it created the job, has waited for it. For the next one it does not wait.
func TestAnEnqueueThatHasWaitedForAPlainInsertAsksAgainWhoIsBeside(t *testing.T) {
	tb := newTable(t, queue.Config{})
	def := one[string](tb, `SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1`, "add_price_refresh")
	for old, paused := range map[string]string{
		"mark := NOT first;": "mark := NOT first; IF vain = 0 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; PERFORM WHERE false;",
		"vain := vain + 1;":  "vain := vain + 1; PERFORM pg_advisory_xact_lock_shared(2);",
	} {
		if strings.Count(def, old) != 1 {
			t.Fatalf("add_price_refresh has no single %q", old)
		}
		def = strings.Replace(def, old, paused, 1)
	}
	tb.exec(def)
	asked, waited, plain, next, caller := tb.begin(readCommitted), tb.begin(readCommitted), tb.begin(readCommitted), tb.begin(readCommitted), tb.hurried(tb.db.Conn(t))
	tb.run(asked, `SELECT pg_advisory_xact_lock(1)`)
	tb.run(waited, `SELECT pg_advisory_xact_lock(2)`)
	over := doing(caller, enqueueC, `["e"]`)
	waitsFor := func(who *pgx.Conn) {
		t.Helper()
		for !one[bool](tb, `SELECT $1 = ANY (pg_blocking_pids($2))`, who.PgConn().PID(), caller.PgConn().PID()) {
			if len(over) > 0 {
				t.Fatal("it does not wait")
			}
		}
	}
	waitsFor(asked)
	tb.run(plain, plainC)
	tb.commit(asked)
	waitsFor(plain)
	tb.commit(plain)
	waitsFor(waited)
	tb.exec(`UPDATE notifyworker.jobs SET status = 'FAILED', finished_at = now() WHERE status = 'PENDING'`)
	tb.run(next, plainC)
	tb.commit(waited)
	if err := <-over; err != nil {
		t.Error(err)
	}
	tb.commit(next)
	tb.sound()
}

// hurried is a session that waits for no lock for long: then its statement fails.
func (tb *table) hurried(c *pgx.Conn) *pgx.Conn {
	tb.t.Helper()
	tb.run(c, `SET lock_timeout = '10s'`)
	return c
}

// reserved is a job that runs.
func (tb *table) reserved(catalog, ids string) queue.Job {
	tb.t.Helper()
	tb.enqueue(catalog, ids)
	return tb.reserveOne()
}
