package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// historyRows is how many finished jobs the plans are made for. They are few pages more than what waits; a scan of them is
// not: it is told by the counters of the transaction, whatever the plan is called.
const historyRows = 200_000

// longHistory is a table with many finished jobs, and some hundred that wait or run.
func longHistory(t *testing.T, rows int) *table {
	tb := newTable(t, queue.Config{})
	tb.exec(`ALTER TABLE notifyworker.jobs DISABLE TRIGGER USER`)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, config, created_at, run_after, started_at, finished_at, duration_ms)
		SELECT (ARRAY['PRICE_REFRESH', 'csv_import', 'send_report'])[1 + g % 3], CASE WHEN g % 50 = 0 THEN 'FAILED' ELSE 'COMPLETED' END,
		       jsonb_build_object('catalogId', 'c' || g % 500, 'productIds', '["p"]'::jsonb), d, d, d, d + interval '1 s', g % 1000
		  FROM (SELECT g, now() - interval '1 h' - g * interval '1 s' AS d FROM generate_series(1, $1::int) g) x`, rows)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, config, lock_token, lease_expires_at, started_at)
		SELECT 'PRICE_REFRESH', 'RUNNING', jsonb_build_object('catalogId', 'c' || g, 'productIds', '["p"]'::jsonb), gen_random_uuid(),
		       now() + CASE WHEN g <= 5 THEN interval '-1 s' ELSE interval '1 h' END, now() FROM generate_series(1, 100) g`)
	tb.exec(`ALTER TABLE notifyworker.jobs ENABLE TRIGGER USER`)
	tb.exec(`INSERT INTO notifyworker.jobs (type, run_after) SELECT 'csv_import', now() + g * interval '1 s' FROM generate_series(-100, 100) g`)
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('c' || g % 200, jsonb_build_array(g)) FROM generate_series(1, 600) g`)
	tb.exec(`VACUUM ANALYZE notifyworker.jobs, notifyworker.job_additions`)
	return tb
}

// scans is what one transaction has read of jobs.
type scans struct {
	seq, rows int
	indexes   map[string]bool
}

func scansOf(t *testing.T, c *pgx.Conn) scans {
	t.Helper()
	s := scans{indexes: map[string]bool{}}
	if err := c.QueryRow(t.Context(), `SELECT seq_scan, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
		WHERE relid = 'notifyworker.jobs'::regclass`).Scan(&s.seq, &s.rows); err != nil {
		t.Fatal(err)
	}
	rows, err := c.Query(t.Context(), `SELECT i.indexrelid::regclass::text FROM pg_index i
		WHERE i.indrelid = 'notifyworker.jobs'::regclass AND pg_stat_get_xact_numscans(i.indexrelid) > 0`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		s.indexes[n] = true
	}
	return s
}

func TestB41NoCallReadsTheHistory(t *testing.T) {
	rows := historyRows
	if testing.Short() {
		rows /= 4
	}
	tb := longHistory(t, rows)
	call := func(sql string, args ...any) func(context.Context, *queue.Store, *pgx.Conn) error {
		return func(ctx context.Context, _ *queue.Store, c *pgx.Conn) error {
			_, err := c.Exec(ctx, sql, args...)
			return err
		}
	}
	for _, k := range []struct {
		name    string
		do      func(context.Context, *queue.Store, *pgx.Conn) error
		rows    int    // of jobs, that it may read
		through string // an index that it lives from
	}{
		{"reserve", func(ctx context.Context, s *queue.Store, _ *pgx.Conn) error {
			r, err := s.Reserve(ctx, 20)
			if err == nil && len(r.Jobs) != 20 {
				err = fmt.Errorf("reserved %d jobs", len(r.Jobs))
			}
			return err
		}, 1000, "jobs_due_idx"},
		{"next_due", call(`SELECT * FROM notifyworker.next_due('-infinity')`), 50, "jobs_due_idx"},
		{"rescue", func(ctx context.Context, s *queue.Store, _ *pgx.Conn) error {
			r, err := s.Rescue(ctx, 10)
			if err == nil && len(r) != 5 {
				err = fmt.Errorf("rescued %d jobs", len(r))
			}
			return err
		}, 200, "jobs_lease_idx"},
		{"depth", func(ctx context.Context, s *queue.Store, _ *pgx.Conn) error {
			_, err := s.Depth(ctx)
			return err
		}, 1500, "jobs_lease_idx"},
		{"durations", func(ctx context.Context, s *queue.Store, _ *pgx.Conn) error {
			_, err := s.Durations(ctx, 2*time.Hour)
			return err
		}, 8000, "jobs_stats_idx"},
		{"purge", func(ctx context.Context, s *queue.Store, _ *pgx.Conn) error {
			_, err := s.Purge(ctx, queue.Retention{Completed: 24 * time.Hour, Failed: 48 * time.Hour}, 100)
			return err
		}, 20000, "jobs_stats_idx"},
		{"sweep", func(ctx context.Context, s *queue.Store, _ *pgx.Conn) error {
			_, err := s.Sweep(ctx)
			return err
		}, 2000, "jobs_price_refresh_pending_catalog_uq"},
		{"enqueue to a waiting job", call(`SELECT notifyworker.enqueue_price_refresh('c1', '["x"]')`), 10, "jobs_price_refresh_pending_catalog_uq"},
		{"enqueue the first", call(`SELECT notifyworker.enqueue_price_refresh('new', '["x"]')`), 10, "jobs_price_refresh_pending_catalog_uq"},
		{"requeue", call(`SELECT q.* FROM (SELECT id, lock_token FROM notifyworker.jobs WHERE status = 'RUNNING' ORDER BY lease_expires_at DESC LIMIT 1) j,
			notifyworker.requeue(j.id, 'refused', j.lock_token) q`), 200, "jobs_pkey"},
	} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			c := tb.begin(readCommitted)
			tb.run(c, "SET LOCAL plan_cache_mode = "+mode)
			s, err := queue.New(queue.Config{DB: c, WorkerID: workerID})
			if err != nil {
				t.Fatal(err)
			}
			if err := k.do(t.Context(), s, c); err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			got := scansOf(t, c)
			if got.seq != 0 || got.rows > k.rows || !got.indexes["notifyworker."+k.through] {
				t.Errorf("%s, %s: %d scans of the whole table, %d rows read (at most %d are expected), by %v (%s is expected)",
					k.name, mode, got.seq, got.rows, k.rows, got.indexes, k.through)
			}
			tb.run(c, "ROLLBACK")
		}
	}
}
