package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// The table keeps its invariants against a hand in psql.
func TestTheTableRefusesWhatCannotBe(t *testing.T) {
	b := newBench(t)
	b.exec(`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, article_ids, lock_token, lease_expires_at)
		VALUES (0, '00000000-0000-0000-0000-000000000000', 'c', 'PARTIAL', '["p1"]', true, '{p1}', gen_random_uuid(), now())`)
	for sql, code := range map[string]string{
		`UPDATE notifyworker.refreshes SET status = 'GONE'`:          "23514",
		`UPDATE notifyworker.refreshes SET scope = 'SOME'`:           "23514",
		`UPDATE notifyworker.refreshes SET status = 'DONE'`:          "23514",
		`UPDATE notifyworker.refreshes SET lock_token = NULL`:        "23514",
		`UPDATE notifyworker.refreshes SET lease_expires_at = NULL`:  "23514",
		`UPDATE notifyworker.refreshes SET finished_at = now()`:      "23514",
		`UPDATE notifyworker.refreshes SET done_count = 2`:           "23514",
		`UPDATE notifyworker.refreshes SET done_count = -1`:          "23514",
		`UPDATE notifyworker.refreshes SET failed = '{}'`:            "23514",
		`UPDATE notifyworker.refreshes SET listed = false`:           "23514",
		`UPDATE notifyworker.refreshes SET product_ids = '"p1"'`:     "22023",
		`UPDATE notifyworker.refreshes SET product_ids = '["p2"]'`:   "55000",
		`UPDATE notifyworker.refreshes SET article_ids = '{}'`:       "55000",
		`UPDATE notifyworker.refreshes SET catalog_id = 'd'`:         "55000",
		`UPDATE notifyworker.refreshes SET id = DEFAULT, job_id = 7`: "55000",
		`INSERT INTO notifyworker.refreshes (id, job_id, tenant_id, catalog_id, scope, product_ids, listed) VALUES (1, 1, gen_random_uuid(), 'c', 'FULL', '[]', false)`: "428C9",
	} {
		_, err := b.pool.Exec(context.Background(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != code {
			t.Errorf("%s: got %v, want SQLSTATE %s", sql, err, code)
		}
	}
	b.exec(`UPDATE notifyworker.refreshes SET updated_at = now(), product_ids = product_ids`)
}

func TestEverythingHasAComment(t *testing.T) {
	b := newBench(t)
	if got := value[*string](b, `SELECT string_agg(a.attname, ', ') FROM pg_attribute a
		WHERE a.attrelid = 'notifyworker.refreshes'::regclass AND a.attnum > 0 AND col_description(a.attrelid, a.attnum) IS NULL`); got != nil {
		t.Errorf("columns without a comment: %s", *got)
	}
	if got := value[*string](b, `SELECT string_agg(p.proname, ', ') FROM pg_proc p WHERE p.pronamespace = 'notifyworker'::regnamespace AND obj_description(p.oid) IS NULL
		AND p.proname ~ 'refresh|article|chunk|flight|wake'`); got != nil {
		t.Errorf("functions without a comment: %s", *got)
	}
}
