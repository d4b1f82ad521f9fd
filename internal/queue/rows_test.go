package queue_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"notifyworker/internal/queue"

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

// The ids that wait for a catalog may be more than one JSON value holds. They are taken in parts.
func TestIDsThatNoRowCanHoldTogetherAreTakenInParts(t *testing.T) {
	tb := newTable(t)
	for part := range 3 { // 3 times 100 MB
		tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', (SELECT jsonb_agg(repeat('x', 1000000) || g) FROM generate_series($1 * 100 + 1, $1 * 100 + 100) g))`, part)
	}
	if _, err := tb.pool.Exec(t.Context(), `SELECT FROM notifyworker.reserve(10, $1, 60000)`, workerA); err == nil {
		t.Error("they are no longer too many: mend the test")
	}
	got := 0
	for range 10 {
		got += value[int](tb, `SELECT coalesce(sum(product_count), 0)::int FROM notifyworker.reserve(10, $1, 60000, p_careful => true)`, workerA)
		if got == 300 {
			break
		}
	}
	if n := value[int](tb, `SELECT count(DISTINCT md5(e.id)) FROM notifyworker.jobs j, jsonb_array_elements_text(j.config -> 'productIds') e(id)`); got != 300 || n != 300 {
		t.Errorf("%d ids were reserved, %d different ones, want 300", got, n)
	}
}

// FuzzProductIDs: a list of ids is refused as a whole, with a SQLSTATE that tells the caller so, or each of its ids is there when
// the job is taken.
func FuzzProductIDs(f *testing.F) {
	table := newTable(f)
	for _, s := range []string{
		`[]`, `["p1", 2]`, `[null]`, `{}`, `"p"`, `["\u0000"]`, `["\ud800"]`, `[1e400, -0.0]`, `["p", "p", 1, 1.0, "1"]`, `[[`, "", "[\"\xff\"]", "[\"\x00\"]",
		`[NaN]`, `[1e131072]`, `["` + strings.Repeat("x", 9000) + `"]`, "[\"\u2028\uffff\U0010ffff\"]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ids string) {
		tb := table
		tb.t = t
		_, err := tb.pool.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh('c', $1::text::jsonb)`, ids)
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			switch pg.Code {
			case "22023", "22P02", "22P05", "22021", "22003", "54001":
			default:
				t.Errorf("%q: %v", ids, err)
			}
			if r := tb.reserve(1); len(r.Jobs) != 0 {
				t.Errorf("%q: refused, and a job with %s", ids, r.Jobs[0].Config)
			}
			return
		} else if err != nil {
			t.Fatalf("%q: %v", ids, err)
		}
		j := tb.one()
		var same bool
		if err := tb.pool.QueryRow(t.Context(), `SELECT $1::text::jsonb @> $2::text::jsonb AND $2::text::jsonb @> $1::text::jsonb AND $2::text::jsonb -> 0 IS NOT DISTINCT FROM $1::text::jsonb -> 0`,
			ids, string(productIDs(t, j.Config))).Scan(&same); err != nil || !same {
			t.Errorf("%q arrived as %s: %v", ids, j.Config, err)
		}
		if _, err := tb.Complete(t.Context(), []queue.Completion{{ID: j.ID, Token: j.Token}}); err != nil {
			t.Fatal(err)
		}
	})
}

// productIDs are those of a config, as they are written in it.
func productIDs(t *testing.T, config json.RawMessage) []byte {
	t.Helper()
	var c queue.PriceRefreshConfig
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	ids, err := json.Marshal(c.ProductIDs)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}
