package integration

import (
	"context"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// table is a migrated database of the test's own, with a Store on it.
type table struct {
	*queue.Store
	t    testing.TB
	db   *pgtest.Database
	pool *pgxpool.Pool
	s    string // the schema, quoted
}

func newTable(t testing.TB, cfg queue.Config, opts ...pgtest.Option) *table {
	t.Helper()
	db := pgtest.DB(t, opts...)
	pool := db.Pool(t)
	cfg.DB, cfg.WorkerID, cfg.Schema = pool, workerID, db.Schema
	s, err := queue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &table{Store: s, t: t, db: db, pool: pool, s: pgx.Identifier{db.Schema}.Sanitize()}
}

func (tb *table) exec(sql string, args ...any) {
	tb.t.Helper()
	if _, err := tb.pool.Exec(context.Background(), sql, args...); err != nil {
		tb.t.Fatalf("%s: %v", sql, err)
	}
}

// one reads one value.
func one[T any](tb *table, sql string, args ...any) T {
	tb.t.Helper()
	var v T
	if err := tb.pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		tb.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (tb *table) enqueue(catalog, ids string) int64 {
	tb.t.Helper()
	return one[int64](tb, `SELECT job_id FROM `+tb.s+`.enqueue_price_refresh($1, $2::text::jsonb)`, catalog, ids)
}

// enqueueRR does it in a REPEATABLE READ transaction: the ids wait as a marked addition.
func (tb *table) enqueueRR(catalog, ids string) int64 {
	tb.t.Helper()
	tx := tb.begin("REPEATABLE READ")
	var id int64
	if err := tx.QueryRow(context.Background(), `SELECT job_id FROM `+tb.s+`.enqueue_price_refresh($1, $2::text::jsonb)`, catalog, ids).Scan(&id); err != nil {
		tb.t.Fatal(err)
	}
	tb.commit(tx)
	return id
}

// begin opens a client's transaction on a connection of its own.
func (tb *table) begin(iso string) *pgx.Conn {
	tb.t.Helper()
	c := tb.db.Conn(tb.t)
	if _, err := c.Exec(context.Background(), "BEGIN ISOLATION LEVEL "+iso); err != nil {
		tb.t.Fatal(err)
	}
	return c
}

func (tb *table) run(c *pgx.Conn, sql string, args ...any) {
	tb.t.Helper()
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		tb.t.Fatalf("%s: %v", sql, err)
	}
}

func (tb *table) commit(c *pgx.Conn) {
	tb.t.Helper()
	tb.run(c, "COMMIT")
}

func (tb *table) reserve(n int) []queue.Job {
	tb.t.Helper()
	r, err := tb.Reserve(context.Background(), n)
	if err != nil || r.Poisoned != nil {
		tb.t.Fatalf("reserve: %v, poisoned: %v", err, r.Poisoned)
	}
	return r.Jobs
}

// reserveOne reserves exactly one job.
func (tb *table) reserveOne() queue.Job {
	tb.t.Helper()
	jobs := tb.reserve(10)
	if len(jobs) != 1 {
		tb.t.Fatalf("reserved %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// due makes all that waits due.
func (tb *table) due() {
	tb.t.Helper()
	tb.exec(`UPDATE ` + tb.s + `.jobs SET run_after = now() - interval '1 s' WHERE status = 'PENDING' AND run_after > now()`)
	tb.exec(`UPDATE ` + tb.s + `.job_additions SET run_after = '-infinity' WHERE run_after > now()`)
}

func (tb *table) complete(jobs ...queue.Job) {
	tb.t.Helper()
	if err := complete(context.Background(), tb.Store, jobs); err != nil {
		tb.t.Fatal(err)
	}
}

func (tb *table) requeue(j queue.Job, cause queue.Cause) queue.Returned {
	tb.t.Helper()
	out, err := tb.Requeue(context.Background(), queue.Return{ID: j.ID, Token: j.Token, Cause: cause, Err: "not now"})
	if err != nil {
		tb.t.Fatal(err)
	}
	return out
}

func (tb *table) status(id int64) string {
	tb.t.Helper()
	return one[string](tb, `SELECT status FROM `+tb.s+`.jobs WHERE id = $1`, id)
}

// ids are the product ids of a job, as JSON text.
func (tb *table) ids(id int64) string {
	tb.t.Helper()
	return one[string](tb, `SELECT (config -> 'productIds')::text FROM `+tb.s+`.jobs WHERE id = $1`, id)
}

// into is whom a job was merged into, 0 when it says nothing.
func (tb *table) into(id int64) int64 {
	tb.t.Helper()
	return one[int64](tb, `SELECT coalesce((result ->> 'mergedIntoJobId')::bigint, 0) FROM `+tb.s+`.jobs WHERE id = $1`, id)
}

// sound fails the test when an unmarked addition has no waiting job.
func (tb *table) sound() {
	tb.t.Helper()
	r, err := tb.Sweep(context.Background())
	if err != nil || r.Repaired != 0 {
		tb.t.Errorf("a sweep repaired %d additions, %v", r.Repaired, err)
	}
}
