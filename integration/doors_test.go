package integration

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

// refusals are calls that must fail, with the SQLSTATE, and, for what a caller can mend, with words that say how.
var refusals = []struct{ sql, code, says string }{
	{`enqueue_price_refresh(NULL, '[]')`, "22023", "the catalog id is missing"},
	{`enqueue_price_refresh('', '[]')`, "22023", "the catalog id is empty"},
	{`enqueue_price_refresh(repeat('ü', 513), '[]')`, "22023", "1026 bytes, at most 1024"},
	{`enqueue_price_refresh('c', NULL)`, "22023", "product ids are missing"},
	{`enqueue_price_refresh('c', 'null')`, "22023", "product ids are null"},
	{`enqueue_price_refresh('c', '{"0": "p1"}')`, "22023", "product ids are object"},
	{`enqueue_price_refresh('c', '"p1"')`, "22023", "product ids are string"},
	{`enqueue_price_refresh('c', '7')`, "22023", "product ids are number"},
	{`enqueue_price_refresh('c', '["p1", null]')`, "22023", "a product id is null"},
	{`enqueue_price_refresh('c', '[["p1"]]')`, "22023", "a product id is array"},
	{`enqueue_price_refresh('c', '[true]')`, "22023", "a product id is boolean"},
	{`enqueue_price_refresh('c', '[{"id": "p1"}]')`, "22023", "a product id is object"},
	{`enqueue_price_refresh('c', (SELECT jsonb_agg(CASE WHEN g = 30000 THEN 'null' ELSE to_jsonb(g) END) FROM generate_series(1, 30000) g))`, "22023", "a product id is null"},
	{`enqueue_price_refresh('c', '["\u0000"]')`, "22P05", ""},
	{`enqueue_price_refresh('c', '["\ud800"]')`, "22P02", ""},
	{`enqueue_price_refresh('c', '[NaN]')`, "22P02", ""},
	{`enqueue_price_refresh('c', '["p1"')`, "22P02", ""},
	{`enqueue_price_refresh('c', repeat('[', 100000)::jsonb)`, "54001", ""},
	{`enqueue_price_refresh('c', '[]', tenant_id => NULL)`, "22004", "the tenant id is NULL"},
	{`enqueue_price_refresh('c', '[]', tenant_id => 'me')`, "22P02", ""},
	{`enqueue_price_refresh('c', '[]', tenant_id => '11111111-1111-4111-8111-111111111111')`, "23503", ""},
	{`enqueue_price_refresh('c', '[]', trace_id => repeat('t', 513))`, "22023", "513 bytes, at most 512"},
	{`enqueue_price_refresh('c', '[]', delay => '-1 microsecond')`, "22023", "a delay of"},
	{`enqueue_price_refresh('c', '[]', delay => '10 years 1 s')`, "22023", "a delay of"},
	{`enqueue_price_refresh('c', '[]', delay => '3654 days')`, "22023", "a delay of"},
	{`enqueue_price_refresh('c', '[]', delay => '178000000 years')`, "22023", "a delay of"},
	{`enqueue_price_refresh('c', '[]', delay => 'soon')`, "22007", ""},
	{`enqueue_full_refresh(NULL)`, "22023", "the catalog id is missing"},
	{`enqueue_full_refresh('')`, "22023", "the catalog id is empty"},
	{`enqueue_full_refresh(repeat('c', 10240))`, "22023", "10240 bytes"},
	{`enqueue_full_refresh('c', tenant_id => NULL)`, "22004", "the tenant id is NULL"},
	{`enqueue_full_refresh('c', delay => '-1 s')`, "22023", "a delay of"},
	{`enqueue_price_refreshes(NULL)`, "22023", "refreshes is missing"},
	{`enqueue_price_refreshes('{}')`, "22023", "refreshes is object"},
	{`enqueue_price_refreshes('[1]')`, "22023", "entry 1 of refreshes"},
	{`enqueue_price_refreshes('[{"catalogId": "ok", "productIds": []}, null]')`, "22023", "entry 2 of refreshes"},
	{`enqueue_price_refreshes('[{"catalogId": "ok", "productIds": []}, {"catalogid": "c", "productIds": []}]')`, "22023", "entry 2 of refreshes"},
	{`enqueue_price_refreshes('[{"catalogId": 7, "productIds": []}]')`, "22023", "entry 1 of refreshes"},
	{`enqueue_price_refreshes('[{"catalogId": "", "productIds": []}]')`, "22023", "the catalog id is empty"},
	{`enqueue_price_refreshes('[{"catalogId": "ok", "productIds": ["p"]}, {"catalogId": "c"}]')`, "22023", "product ids are missing"},
	{`enqueue_price_refreshes('[{"catalogId": "ok", "productIds": ["p"]}, {"catalogId": "c", "productIds": [[]]}]')`, "22023", "a product id is array"},
	{`enqueue_price_refreshes('[{"catalogId": "ok", "productIds": ["p"]}, {"catalogId": "c", "productIds": [], "full": true}]')`, "22023", "entry 2 of refreshes asks for a whole catalog: c"},
	{`enqueue_job(NULL)`, "22023", "the job type is missing"},
	{`enqueue_job('')`, "22023", "the job type is empty"},
	{`enqueue_job(repeat('ü', 101))`, "22023", "longer than 200 bytes"},
	{`enqueue_job('t', NULL)`, "22023", "config is missing"},
	{`enqueue_job('t', '[]')`, "22023", "config is array"},
	{`enqueue_job('t', '"{}"')`, "22023", "config is string"},
	{`enqueue_job('t', max_attempts => 0)`, "22023", "max_attempts is 0"},
	{`enqueue_job('t', max_attempts => -2147483648)`, "22023", "max_attempts is -2147483648"},
	{`enqueue_job('t', max_attempts => 2147483648)`, "42883", ""},
	{`enqueue_job('t', delay => '-1 s')`, "22023", "a delay of"},
	{`enqueue_job('t', trace_id => repeat('t', 513))`, "22023", "513 bytes"},
	{`enqueue_job('t', tenant_id => '11111111-1111-4111-8111-111111111111')`, "23503", ""},
	{`enqueue_job('PRICE_REFRESH')`, "22023", "the catalog id is missing"},
	{`enqueue_job('PRICE_REFRESH', '{"catalogId": 7, "productIds": []}')`, "22023", "config.catalogId is a JSON number"},
	{`enqueue_job('PRICE_REFRESH', '{"catalogId": "c"}')`, "22023", "product ids are missing"},
	{`enqueue_job('PRICE_REFRESH', '{"catalogId": "c", "productIds": [null]}')`, "22023", "a product id is null"},
	{`enqueue_job('PRICE_REFRESH', '{"catalogId": "c", "productIds": [], "full": "true"}')`, "22023", "config.full is a JSON string"},
	{`enqueue_job('PRICE_REFRESH', '{"catalogId": "c", "productIds": [], "productids": ["p1"]}')`, "22023", "can't keep config.productids"},
	{`enqueue_job('PRICE_REFRESH', '{"catalogId": "c", "productIds": [], "note": null}')`, "22023", "can't keep config.note"},
}

// plainRefusals are rows that a hand can't write, be it in a hurry.
var plainRefusals = []struct{ sql, code, says string }{
	{`INSERT INTO notifyworker.jobs (type) VALUES (NULL)`, "23502", ""},
	{`INSERT INTO notifyworker.jobs (type) VALUES ('')`, "23514", "jobs_type_sized"},
	{`INSERT INTO notifyworker.jobs (type) VALUES (repeat('t', 201))`, "23514", "jobs_type_sized"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('t', '[]')`, "23514", "jobs_config_object"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('t', 'null')`, "23514", "jobs_config_object"},
	{`INSERT INTO notifyworker.jobs (type, result) VALUES ('t', '7')`, "23514", "jobs_result_object"},
	{`INSERT INTO notifyworker.jobs (type, trace_id) VALUES ('t', repeat('t', 513))`, "23514", "jobs_trace_id_sized"},
	{`INSERT INTO notifyworker.jobs (type, attempts) VALUES ('t', -1)`, "23514", "jobs_attempts_not_negative"},
	{`INSERT INTO notifyworker.jobs (type, max_attempts) VALUES ('t', 0)`, "23514", "jobs_max_attempts_positive"},
	{`INSERT INTO notifyworker.jobs (type, run_after) VALUES ('t', 'infinity')`, "23514", "jobs_run_after_finite"},
	{`INSERT INTO notifyworker.jobs (type, status) VALUES ('t', 'pending')`, "23514", "jobs_status_known"},
	{`INSERT INTO notifyworker.jobs (type, status) VALUES ('t', 'RUNNING')`, "23514", "running"},
	{`INSERT INTO notifyworker.jobs (type, tenant_id) VALUES ('t', '11111111-1111-4111-8111-111111111111')`, "23503", "tenant"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{}')`, "22023", "the catalog id is missing"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "", "productIds": []}')`, "22023", "the catalog id is empty"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": ["c"], "productIds": []}')`, "22023", "config.catalogId is a JSON array"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": {"p": 1}}')`, "22023", "product ids are object"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": [false]}')`, "22023", "a product id is boolean"},
	{`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": [], "full": 1}')`, "22023", "config.full"},
	{`INSERT INTO notifyworker.jobs (id, type) VALUES (1, 't')`, "428C9", ""},
	{`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids) VALUES (gen_random_uuid(), 'c', '{}')`, "23514", "product_ids_array"},
	{`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids) SELECT gen_random_uuid(), 'c', jsonb_agg(g) FROM generate_series(1, 10001) g`, "23514", "product_ids_array"},
	{`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids) VALUES (gen_random_uuid(), repeat('c', 1025), '[]')`, "23514", "job_additions_sized"},
	{`INSERT INTO notifyworker.job_additions (id, tenant_id, catalog_id, product_ids) OVERRIDING SYSTEM VALUE VALUES (9223372036854775807, gen_random_uuid(), 'c', '[]')`, "23514", "job_additions_id_small"},
	{`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, run_after) VALUES (gen_random_uuid(), 'c', '[]', 'infinity')`, "23514", "run_after_comes"},
	{`INSERT INTO notifyworker.workers (id, host, pid, version, slots) VALUES (NULL, 'h', 1, 'v', 1)`, "23502", ""},
}

func TestBadInputIsRefusedWithWordsAndLeavesNothing(t *testing.T) {
	for _, v := range []string{"advisory", "cte"} {
		t.Run(v, func(t *testing.T) {
			tb := newTable(t, queue.Config{}, pgtest.Variant(v))
			const all = `SELECT (SELECT count(*) FROM notifyworker.jobs) + (SELECT count(*) FROM notifyworker.job_additions) + (SELECT count(*) FROM notifyworker.workers)`
			refused := func(sql, code, says string, hinted bool) {
				t.Helper()
				_, err := tb.pool.Exec(t.Context(), sql)
				var pg *pgconn.PgError
				switch {
				case !errors.As(err, &pg):
					t.Errorf("%s: %v, want SQLSTATE %s", sql, err, code)
				case pg.Code != code || !strings.Contains(pg.Message, says):
					t.Errorf("%s: %v, want SQLSTATE %s and %q", sql, err, code, says)
				case hinted && pg.Hint == "":
					t.Errorf("%s: %q does not say what to do", sql, pg.Message)
				}
			}
			for waiting := range 2 { // a new job is looked at by its trigger, what joins one by the function
				if waiting == 1 {
					tb.enqueue("c", `["p1"]`)
				}
				for _, r := range refusals {
					refused("SELECT * FROM notifyworker."+r.sql, r.code, r.says, r.says != "")
				}
				for _, r := range plainRefusals {
					refused(r.sql, r.code, r.says, r.code == "22023")
				}
				if n := one[int](tb, all); n != waiting {
					t.Errorf("what was refused has left %d rows", n-waiting)
				}
			}
		})
	}
}

// What is odd and allowed arrives as it was.
func TestOddInputArrivesAsItWas(t *testing.T) {
	tb := newTable(t, queue.Config{})
	long := strings.Repeat("ü", 5120) // 10 kB
	for i, c := range []struct{ catalog, ids, want string }{
		{"empty list", `[]`, `[]`},
		{" ", `["", " ", "\t", "a\nb", "\u007f", "\u0001"]`, "[\"\", \" \", \"\\t\", \"a\\nb\", \"\u007f\", \"\\u0001\"]"},
		{"numbers", `[9007199254740993, -0, 1e2, 1.50, 18446744073709551616, 0.1e-7]`, `[9007199254740993, 0, 100, 1.50, 18446744073709551616, 0.00000001]`},
		{"é", `["é", "e\u0301", "\ud83d\ude00", "\uffff", "\u202e", "\u200b", "İ"]`, "[\"é\", \"e\u0301\", \"😀\", \"\uffff\", \"\u202e\", \"\u200b\", \"İ\"]"},
		{"e\u0301", `["'; DROP TABLE jobs; --", "$1", "%s", ":\"schema\"", "\\"]`, `["'; DROP TABLE jobs; --", "$1", "%s", ":\"schema\"", "\\"]`},
		{"10 kB", `["` + long + `"]`, `["` + long + `"]`},
		{strings.Repeat("\u0001", 1024), `["p1"]`, `["p1"]`},
		{strings.Repeat("\"\\", 512), `["p1", "p1", "P1", "p1 "]`, `["p1", "P1", "p1 "]`},
	} {
		tb.enqueue(c.catalog, c.ids)
		j := tb.reserveOne()
		if got := tb.ids(j.ID); j.CatalogID != c.catalog || got != c.want {
			t.Errorf("%d: catalog %.60q has %.200s, want catalog %.60q with %.200s", i, j.CatalogID, got, c.catalog, c.want)
		}
		tb.complete(j)
	}
	// Options that a caller may well give.
	for _, q := range []string{
		`enqueue_job('t', delay => NULL, trace_id => NULL, operated_by => NULL, max_attempts => NULL)`,
		`enqueue_job(repeat('t', 200), '{"": {"a": [1e400, null]}}', trace_id => repeat('t', 512), delay => '10 years')`,
		`enqueue_job(E'a\nb', delay => '1 month -1 day')`,
		`enqueue_job('t', delay => '3650 days')`,
		`enqueue_job('t', delay => '87600 hours')`,
		`enqueue_price_refreshes('[]')`,
		`enqueue_price_refreshes('[{"catalogId": "parts", "productIds": ["p"], "full": false}]')`,
		`enqueue_price_refreshes('[{"catalogId": "twice", "productIds": [], "more": 1}, {"catalogId": "twice", "productIds": ["p"]}]')`,
	} {
		tb.exec("SELECT * FROM notifyworker." + q)
	}
	for sql, want := range map[string]string{
		`SELECT outcome FROM notifyworker.replay(NULL)`:                  "not_found",
		`SELECT outcome FROM notifyworker.cancel(NULL)`:                  "not_found",
		`SELECT outcome FROM notifyworker.cancel(-1)`:                    "not_found",
		`SELECT outcome FROM notifyworker.replay(9223372036854775807)`:   "not_found",
		`SELECT outcome FROM notifyworker.requeue(NULL, 'failed', NULL)`: "lost",
	} {
		if got := one[string](tb, sql); got != want {
			t.Errorf("%s: got %s, want %s", sql, got, want)
		}
	}
}

// Rows that a hand has put into job_additions, past all functions: what a job can hold is taken, and nothing stops the others.
func TestAdditionsByHandStopNobody(t *testing.T) {
	tb := newTable(t, queue.Config{})
	for i, ids := range []string{`[null]`, `[{}, [], true]`, `[]`, `["p1", "p1"]`, `[[["deep"]]]`} {
		for _, marked := range []bool{true, false} {
			tb.exec(`INSERT INTO notifyworker.job_additions (id, tenant_id, catalog_id, product_ids, marked, from_job_id, job_id, attempts, max_attempts, run_after, created_at)
				OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4::text::jsonb, $5, 9223372036854775807, NULL, 2147483647, 2147483647, '4713-01-01 BC', '294276-12-31')`,
				(1-2*(i%2))*(281474976710655-i), queue.DefaultTenant, fmt.Sprint("c", i, marked), ids, marked)
		}
	}
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked, job_id) VALUES ($1, 'taken', '["x"]', true, (SELECT job_id FROM notifyworker.enqueue_job('other')))`, queue.DefaultTenant)
	tb.enqueue("good", `["p1"]`)
	if _, err := tb.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var reported error
	for range 3 {
		r, err := tb.Reserve(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		reported = cmp.Or(reported, r.Poisoned)
		for _, j := range r.Jobs {
			seen[j.CatalogID+j.Type] = true
			if out, err := tb.Requeue(t.Context(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CausePermanent}); err != nil || out.Verdict != queue.Dead {
				t.Errorf("job of catalog %s: %+v, %v", j.CatalogID, out, err)
			}
		}
	}
	if !seen["goodPRICE_REFRESH"] || !seen["other"] || !seen["takenPRICE_REFRESH"] || len(seen) != 7 || reported == nil {
		t.Errorf("reserved %v, reported %v", seen, reported)
	}
}

// A client may write additions, with the id of a job that somebody was told of. What it makes up belongs to nobody, and must cost
// nobody else a thing.
func TestJobIDsMadeUpByAClientStopNobody(t *testing.T) {
	tb := newTable(t, queue.Config{})
	made := func(catalog string, marked bool, ids string, job int64) {
		tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked, job_id) VALUES ($1, $2, $3::text::jsonb, $4, $5)`,
			queue.DefaultTenant, catalog, ids, marked, job)
	}
	victim := tb.enqueue("victim", `["p1"]`)
	tb.enqueue("victim", `["p2"]`)
	for _, id := range []int64{victim, 1, 0, -7, 5000, 1 << 62} {
		made("victim", false, `[]`, id)
	}
	drawn := one[int64](tb, `SELECT nextval('notifyworker.jobs_id_seq')`)
	made("victim", false, `[null, {}]`, drawn)
	for i := range 20 {
		made("next", true, `["n"]`, int64(9+i)) // ids that the sequence is about to give
	}
	j := tb.reserve(1)[0]
	if got := tb.ids(j.ID); j.ID != victim || got != `["p1", "p2", null, {}]` {
		t.Errorf("job %d has %s, want job %d with the ids of its catalog", j.ID, got, victim)
	}
	if next := tb.reserve(1); len(next) != 1 || next[0].CatalogID != "next" {
		t.Errorf("got %+v", next)
	}
	for range 30 {
		tb.enqueueRR("other", `["r"]`)
		tb.exec(`SELECT notifyworker.enqueue_job('plain')`)
	}
	for {
		js := tb.reserve(10)
		if len(js) == 0 {
			break
		}
		tb.complete(js...)
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`); n != 0 {
		t.Errorf("%d additions wait for ever", n)
	}
}
