package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// impatient is a Store on a session that gives up waiting for a lock, where none should be waited for.
func (tb table) impatient() *queue.Store {
	tb.t.Helper()
	return tb.other(tb.impatientConn(), func(c *queue.Config) { c.WorkerID = workerA })
}

func (tb table) impatientConn() *pgx.Conn {
	tb.t.Helper()
	c := tb.conn()
	if _, err := c.Exec(tb.t.Context(), `SET lock_timeout = '10s'`); err != nil {
		tb.t.Fatal(err)
	}
	return c
}

// locked runs f while somebody has locked what the query says.
func (tb table) locked(query string, f func()) {
	tb.t.Helper()
	tx, err := tb.conn().Begin(tb.t.Context())
	if err != nil {
		tb.t.Fatal(err)
	}
	if _, err := tx.Exec(tb.t.Context(), query+" FOR UPDATE"); err != nil {
		tb.t.Fatal(err)
	}
	f()
	if err := tx.Rollback(tb.t.Context()); err != nil {
		tb.t.Fatal(err)
	}
}

func TestAHeartbeatPassesOverALockedRow(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t'), notifyworker.enqueue_job('t')`)
	js := tb.reserve(2).Jobs
	held := []queue.Held{{ID: js[0].ID, Token: js[0].Token, Type: "t"}, {ID: js[1].ID, Token: js[1].Token, Type: "t"}}
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() + interval '1 ms'`)
	tb.locked(`SELECT FROM notifyworker.jobs WHERE id = (SELECT min(id) FROM notifyworker.jobs)`, func() {
		if lost, busy, err := tb.impatient().Extend(t.Context(), held); err != nil || len(lost) != 0 || len(busy) != 1 || busy[0] != min(held[0].ID, held[1].ID) {
			t.Errorf("lost %v, busy %v, %v", lost, busy, err)
		}
	})
	if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE lease_expires_at > now() + interval '2 s'`); n != 1 {
		t.Errorf("%d leases were extended, want that of the row that nobody had locked", n)
	}
}

func TestALockedRefreshIsPurgedLater(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, status, finished_at)
		SELECT g, '00000000-0000-0000-0000-000000000000', 'c', 'PARTIAL', '["p1"]', true, 'DONE', now() - interval '9 days' FROM generate_series(1, 2) g`)
	r := queue.Retention{Completed: time.Hour}
	tb.locked(`SELECT FROM notifyworker.refreshes WHERE job_id = 1`, func() {
		if p, err := tb.impatient().Purge(t.Context(), r, 10); err != nil || p.Refreshes != 1 {
			t.Errorf("purged %+v, %v", p, err)
		}
	})
	if p, err := tb.Purge(t.Context(), r, 10); err != nil || p.Refreshes != 1 {
		t.Errorf("purged %+v, %v", p, err)
	}
}

func TestRegisteringRemovesWhoIsLongDeadAndWaitsForNobody(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.workers (id, host, pid, version, slots, last_beat)
		SELECT gen_random_uuid(), 'h', g, 'v', 1, now() - g * interval '11 minutes' FROM generate_series(0, 2) g`)
	tb.locked(`SELECT FROM notifyworker.workers WHERE pid = 2`, func() {
		if err := tb.impatient().Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 7, Version: "v", Slots: 1}); err != nil {
			t.Fatal(err)
		}
	})
	if got := value[[]int](tb, `SELECT array_agg(pid ORDER BY pid) FROM notifyworker.workers`); !slices.Equal(got, []int{0, 2, 7}) {
		t.Errorf("workers are %v, want the one that lives, the one that was locked, and the new one", got)
	}
}

func TestALookTellsWhenTheNextLeaseEnds(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t')`)
	tb.one()
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() + interval '1 hour'`)
	if r := tb.reserve(1); r.NextLease < 50*time.Minute || r.NextLease > time.Hour {
		t.Errorf("got %v", r.NextLease)
	}
}

func TestALookTellsWhenTheNextLeaseOfARefreshEnds(t *testing.T) {
	tb := newTable(t)
	tb.refreshing(1, "1 hour")
	if r := tb.reserve(1); r.NextLease < 50*time.Minute || r.NextLease > time.Hour {
		t.Errorf("got %v", r.NextLease)
	}
}

func TestALongEndedLeaseIsRescuedFirst(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t') FROM generate_series(1, 3)`)
	js := tb.reserve(3).Jobs
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - CASE WHEN id = $1 THEN interval '1 hour' WHEN id = $2 THEN interval '1 s' ELSE interval '-1 hour' END`,
		js[1].ID, js[2].ID)
	if r, err := tb.Rescue(t.Context(), 1); err != nil || len(r) != 1 || r[0].ID != js[1].ID {
		t.Errorf("got %+v, %v, want job %d", r, err, js[1].ID)
	}
	if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 1 || r[0].ID != js[2].ID {
		t.Errorf("got %+v, %v, want job %d alone", r, err, js[2].ID)
	}
}

// counting counts the statements that a Store sends.
type counting struct {
	queue.DB
	n int
}

func (c *counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.n++
	return c.DB.Query(ctx, sql, args...)
}

func (c *counting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.n++
	return c.DB.QueryRow(ctx, sql, args...)
}

// Jobs that live cost a rescue nothing: each would be a call of its own that comes too early.
func TestARescueAsksOnlyAboutLeasesThatHaveEnded(t *testing.T) {
	db := &counting{}
	tb := newTable(t, func(c *queue.Config) {
		db.DB = c.DB
		c.DB = db
	})
	tb.exec(`SELECT notifyworker.enqueue_job('t') FROM generate_series(1, 3)`)
	tb.reserve(3)
	db.n = 0
	if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 0 || db.n != 1 {
		t.Errorf("got %+v, %v by %d statements, want nothing by one", r, err, db.n)
	}
}

// What a job was reserved for does not change under its handler, nor under who reads it later.
func TestTheInputOfAReservedJobIsFrozen(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.tenants VALUES ('11111111-1111-4111-8111-111111111111', 'other')`)
	tb.exec(`SELECT notifyworker.enqueue_job('t', '{"n": 1}')`)
	tb.exec(`UPDATE notifyworker.jobs SET config = '{"n": 2}', type = 'u', tenant_id = '11111111-1111-4111-8111-111111111111'`) // it waits
	j := tb.one()
	tb.refused(`UPDATE notifyworker.jobs SET config = '{"n": 3}'`, "55000")
	if _, err := tb.Complete(t.Context(), []queue.Completion{{ID: j.ID, Token: j.Token}}); err != nil {
		t.Fatal(err)
	}
	tb.refused(`UPDATE notifyworker.jobs SET config = '{"n": 3}'`, "55000")
	tb.exec(`UPDATE notifyworker.jobs SET config = config, result = '{"n": 3}'`)
}

func TestAWaitingPriceRefreshStaysWithItsCatalog(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.tenants VALUES ('11111111-1111-4111-8111-111111111111', 'other')`)
	tb.enqueue("c", `["p1"]`)
	tb.enqueue("c", `["p2"]`)
	for _, change := range []string{
		`type = 't'`, `tenant_id = '11111111-1111-4111-8111-111111111111'`, `config = '{"catalogId": "d", "productIds": []}'`,
	} {
		tb.refused(`UPDATE notifyworker.jobs SET `+change, "55000")
	}
	tb.exec(`SELECT notifyworker.enqueue_job('t')`)
	tb.refused(`UPDATE notifyworker.jobs SET type = 'PRICE_REFRESH', config = '{"catalogId": "e", "productIds": []}' WHERE type = 't'`, "55000")
}

// The guard's triggers fire for every row that is PENDING after an UPDATE of its status. Their function asks the rest.
func TestAnUpdateThatLeavesNoMoreToWaitForTakesNoCatalogsLock(t *testing.T) {
	for name, update := range map[string]string{
		"a waiting price refresh":   `UPDATE notifyworker.jobs SET status = 'PENDING', run_after = now() WHERE type = 'PRICE_REFRESH'`,
		"a job that is no refresh":  `UPDATE notifyworker.jobs SET status = 'PENDING', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL WHERE type = 'x'`,
		"a job that goes on to run": `UPDATE notifyworker.jobs SET status = 'RUNNING' WHERE type = 'x'`,
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t)
			tb.exec(`INSERT INTO notifyworker.jobs (type, config) VALUES ('x', '{"catalogId": "c"}')`)
			tb.one()
			tb.enqueue("c", `["p1"]`)
			tx, err := tb.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context()) //nolint:errcheck // it is for nothing
			tag, err := tx.Exec(t.Context(), update)
			if err != nil || tag.RowsAffected() != 1 {
				t.Fatal(tag, err)
			}
			var n int
			if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid IN (1853292545, 1853292546)`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				t.Errorf("it holds %d locks", n)
			}
		})
	}
}
