package queue_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// One row with a time that can't be computed with would stop the reservations of all the others.
func TestTimesThatNoProgramCanReadAreRefused(t *testing.T) {
	tb := newTable(t)
	for _, sql := range []string{
		`INSERT INTO notifyworker.jobs (type, created_at) VALUES ('x', 'infinity')`,
		`INSERT INTO notifyworker.jobs (type, created_at) VALUES ('x', '-infinity')`,
		`INSERT INTO notifyworker.jobs (type, run_after) VALUES ('x', 'infinity')`,
		`INSERT INTO notifyworker.jobs (type, updated_at) VALUES ('x', 'infinity')`,
		`INSERT INTO notifyworker.jobs (type, status, finished_at) VALUES ('x', 'FAILED', 'infinity')`,
		`INSERT INTO notifyworker.jobs (type, status, lock_token, started_at, lease_expires_at) VALUES ('x', 'RUNNING', gen_random_uuid(), now(), 'infinity')`,
		`INSERT INTO notifyworker.jobs (type, status, lock_token, started_at, lease_expires_at) VALUES ('x', 'RUNNING', gen_random_uuid(), '-infinity', now())`,
		`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked, run_after) VALUES ('00000000-0000-0000-0000-000000000000', 'c', '["p"]', true, 'infinity')`,
		`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, lock_token, lease_expires_at) VALUES (1, '00000000-0000-0000-0000-000000000000', 'c', 'FULL', '[]', false, gen_random_uuid(), 'infinity')`,
	} {
		tb.refused(sql, "23514")
	}
	// Odd but finite ones are a job like any other.
	tb.exec(`INSERT INTO notifyworker.jobs (type, created_at, updated_at, run_after) VALUES
		('x', '4713-01-01 BC', '294276-12-31', '4713-01-01 BC'), ('x', '294276-12-31', '4713-01-01 BC', now())`)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, lock_token, started_at, lease_expires_at) VALUES ('x', 'RUNNING', gen_random_uuid(), '4713-01-01 BC', '294276-12-31')`)
	if r := tb.reserve(5); len(r.Jobs) != 2 {
		t.Fatalf("reserved %d jobs, want 2", len(r.Jobs))
	}
}

func TestAnAdditionThatNoJobCouldHoldIsRefused(t *testing.T) {
	tb := newTable(t)
	const add = `INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked, trace_id, attempts, max_attempts)
		SELECT '00000000-0000-0000-0000-000000000000', repeat('c', n), '["p"]', true, repeat('t', m), a, x FROM (VALUES `
	for _, values := range []string{`(1025, 0, 0, 1)`, `(1, 513, 0, 1)`, `(1, 0, -1, 1)`, `(1, 0, 0, 0)`} {
		tb.refused(add+values+`) v(n, m, a, x)`, "23514")
	}
	tb.exec(add + `(1024, 512, 5, 1)) v(n, m, a, x)`)
	if j := tb.one(); j.ProductCount != 1 {
		t.Fatalf("reserved %d ids, want 1", j.ProductCount)
	}
}

func TestAWaitingPriceRefreshIsChangedByHandOnlyToWhatCouldBeEnqueued(t *testing.T) {
	tb := newTable(t)
	tb.enqueue("c", `["p1"]`)
	for _, config := range []string{
		`{"catalogId": "c", "productIds": ["p1", null]}`,
		`{"catalogId": "c", "productIds": [{"id": "p1"}]}`,
		`{"catalogId": "c", "productIds": ["p1"], "full": "yes"}`,
		`{"catalogId": "c", "productIds": ["p1"], "full": 1}`,
	} {
		tb.refused(`UPDATE notifyworker.jobs SET config = '`+config+`' WHERE status = 'PENDING'`, "22023")
		tb.refused(`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '`+config+`')`, "22023")
		tb.refused(`SELECT notifyworker.enqueue_job('PRICE_REFRESH', '`+config+`')`, "22023")
	}
	tb.exec(`UPDATE notifyworker.jobs SET config = '{"catalogId": "c", "productIds": ["p1", 2], "full": null, "note": [null]}'`)
	if j := tb.one(); j.ProductCount != 2 {
		t.Fatalf("reserved %d ids, want 2", j.ProductCount)
	}
}

// refused fails the test unless the statement raises this SQLSTATE.
func (tb table) refused(sql, code string) {
	tb.t.Helper()
	_, err := tb.pool.Exec(tb.t.Context(), sql)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		tb.t.Errorf("%s: %v, want SQLSTATE %s", sql, err, code)
	}
}
