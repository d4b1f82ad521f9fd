package queue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

func TestPurgeRemovesFinishedJobsByAgeAndOutcomeOnly(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, created_at, run_after, started_at, finished_at, lock_token, lease_expires_at)
	         SELECT s, s, now() - age, now() - age, now() - age,
	                CASE WHEN s NOT IN ('PENDING', 'RUNNING') THEN now() - age END,
	                CASE WHEN s = 'RUNNING' THEN gen_random_uuid() END, CASE WHEN s = 'RUNNING' THEN now() END
	           FROM unnest(ARRAY['PENDING', 'RUNNING', 'COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED']) s,
	                unnest(ARRAY[interval '1 year', interval '12 days', interval '1 hour']) age, generate_series(1, 2)`)
	tb.refused(`UPDATE notifyworker.jobs SET finished_at = now() WHERE status IN ('PENDING', 'RUNNING')`, "23514") // or it would be purged
	left := func() string {
		return value[string](tb, `SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) n FROM notifyworker.jobs GROUP BY 1) x`)
	}
	if p, err := tb.Purge(t.Context(), queue.Retention{}, 100); err != nil || p.Jobs != 0 {
		t.Fatalf("nothing is to be removed: %+v, %v", p, err)
	}
	r := queue.Retention{Completed: 24 * time.Hour, Failed: 90 * 24 * time.Hour}
	if p, err := tb.Purge(t.Context(), r, 3); err != nil || p.Jobs != 3+2 {
		t.Fatalf("a batch: %+v, %v", p, err)
	}
	for {
		p, err := tb.Purge(t.Context(), r, 3)
		if err != nil {
			t.Fatal(err)
		}
		if p.Jobs == 0 {
			break
		}
	}
	if got, want := left(), "COMPLETED 2, COMPLETED_WITH_ERRORS 2, FAILED 4, PENDING 6, RUNNING 6"; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
	if _, err := tb.Purge(t.Context(), queue.Retention{Failed: time.Second}, 3); err == nil {
		t.Error("a retention of a second is accepted")
	}
}

// While somebody's snapshot keeps the dead rows, a batch must not walk over those of the batches before.
func TestABatchBeginsWhereTheLastHasEnded(t *testing.T) {
	tb := newTable(t)
	conn := tb.conn()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, created_at, started_at, finished_at)
	         SELECT 't', 'COMPLETED', '2020-01-01', '2020-01-01', '2020-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 1000) g`)
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM notifyworker.jobs").Scan(&n); err != nil || n != 1000 {
		t.Fatal(n, err)
	}
	locked, err := tb.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locked.Exec(t.Context(), "SELECT FROM notifyworker.jobs ORDER BY finished_at LIMIT 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	r := queue.Retention{Completed: time.Hour}
	purge := func(want int64) {
		t.Helper()
		if p, err := tb.Purge(t.Context(), r, 300); err != nil || p.Jobs != want {
			t.Errorf("removed %d, want %d: %v", p.Jobs, want, err)
		}
	}
	purge(300)
	purge(300)
	purge(300)
	if err := locked.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	purge(99) // not the one that was locked when its batch came
	purge(1)
	purge(0)
}

func TestOldRefreshesGoAndTheMillionsThatAreKeptAreNotRead(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, status, created_at, finished_at, lock_token, lease_expires_at)
	         SELECT g, '00000000-0000-0000-0000-000000000000', 'c', 'PARTIAL', '["p1"]', true, s, at, CASE WHEN s = 'DONE' THEN at END,
	                CASE WHEN s = 'ACTIVE' THEN gen_random_uuid() END, CASE WHEN s = 'ACTIVE' THEN now() END
	           FROM generate_series(1, 30000) g,
	                LATERAL (SELECT CASE WHEN g % 100 = 1 AND g < 2500 THEN 'ACTIVE' ELSE 'DONE' END AS s,
	                                now() - CASE WHEN g <= 2500 THEN interval '1 year' ELSE '1 hour' END AS at) x`)
	tb.exec("VACUUM ANALYZE notifyworker.refreshes")
	r := queue.Retention{Completed: 24 * time.Hour}
	for _, want := range []int64{1000, 1000, 475, 0} { // 2500 old ones but the 25 that are active
		if p, err := tb.Purge(t.Context(), r, 1000); err != nil || p.Refreshes != want {
			t.Errorf("removed %d, want %d: %v", p.Refreshes, want, err)
		}
	}
	if n := value[int64](tb, "SELECT count(*) FROM notifyworker.refreshes WHERE status = 'ACTIVE'"); n != 25 {
		t.Errorf("%d active refreshes are left of 25", n)
	}
	tb.exec("VACUUM notifyworker.refreshes")
	explain := strings.NewReplacer("$1", "86400", "$2", "1000", "$3", "0").Replace(tb.PurgeRefreshesText())
	var plan []struct {
		Plan map[string]any
	}
	if err := json.Unmarshal(value[[]byte](tb, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+explain), &plan); err != nil {
		t.Fatal(err)
	}
	read := plan[0].Plan["Shared Hit Blocks"].(float64) + plan[0].Plan["Shared Read Blocks"].(float64)
	if all := value[float64](tb, "SELECT pg_relation_size('notifyworker.refreshes') / 8192"); read > all/4 {
		t.Errorf("a batch that removes nothing reads %v blocks of a table of %v", read, all)
	}
}
