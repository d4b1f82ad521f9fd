package queue_test

import (
	"context"
	"sync"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	workerA = "aaaaaaaa-0000-4000-8000-000000000001"
	workerB = "bbbbbbbb-0000-4000-8000-000000000002"
)

// table is a migrated database of the test's own, with a Store on it.
type table struct {
	*queue.Store
	pool *pgxpool.Pool
	t    testing.TB
}

func newTable(t testing.TB, change ...func(*queue.Config)) table {
	t.Helper()
	return newTableIn(t, pgtest.DB(t), change...)
}

func newTableIn(t testing.TB, db *pgtest.Database, change ...func(*queue.Config)) table {
	t.Helper()
	pool := db.Pool(t)
	cfg := queue.Config{DB: pool, WorkerID: workerA}
	for _, c := range change {
		c(&cfg)
	}
	s, err := queue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return table{Store: s, pool: pool, t: t}
}

// exec runs SQL with the product's schema in the search path of that statement alone.
func (tb table) exec(sql string, args ...any) {
	tb.t.Helper()
	if _, err := tb.pool.Exec(context.Background(), sql, args...); err != nil {
		tb.t.Fatalf("%s: %v", sql, err)
	}
}

// value reads one value.
func value[T any](tb table, sql string, args ...any) T {
	tb.t.Helper()
	var v T
	if err := tb.pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		tb.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (tb table) enqueue(catalog, ids string) int64 {
	tb.t.Helper()
	return value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_price_refresh($1, $2::text::jsonb)`, catalog, ids)
}

func (tb table) reserve(n int) queue.Reservation {
	tb.t.Helper()
	r, err := tb.Reserve(context.Background(), n)
	if err != nil {
		tb.t.Fatal(err)
	}
	return r
}

// one reserves exactly one job.
func (tb table) one() queue.Job {
	tb.t.Helper()
	r := tb.reserve(1)
	if len(r.Jobs) != 1 {
		tb.t.Fatalf("reserved %d jobs, want 1", len(r.Jobs))
	}
	return r.Jobs[0]
}

// lockJobs holds the rows of all jobs locked, as somebody with psql may, until letGo is called.
func (tb table) lockJobs() (letGo func()) {
	tb.t.Helper()
	tx, err := tb.pool.Begin(context.Background())
	if err != nil {
		tb.t.Fatal(err)
	}
	letGo = sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			tb.t.Error(err)
		}
	})
	if _, err := tx.Exec(context.Background(), `SELECT FROM notifyworker.jobs FOR UPDATE`); err != nil {
		letGo()
		tb.t.Fatal(err)
	}
	return letGo
}

func (tb table) status(id int64) string {
	tb.t.Helper()
	return value[string](tb, `SELECT status FROM notifyworker.jobs WHERE id = $1`, id)
}

func (tb table) requeue(r queue.Return) queue.Returned {
	tb.t.Helper()
	out, err := tb.Requeue(context.Background(), r)
	if err != nil {
		tb.t.Fatal(err)
	}
	return out
}

// openStore is a Store on a pool as a worker opens it: hardened, which the pool of a table is not.
func openStore(t testing.TB, url string) *queue.Store {
	t.Helper()
	pool, err := queue.OpenPool(context.Background(), url, "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := queue.New(queue.Config{DB: pool, WorkerID: workerA})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
