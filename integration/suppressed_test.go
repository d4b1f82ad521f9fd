package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

// A trigger of the user's may say RETURN NULL, which makes PostgreSQL pass over a row without a word. What it suppresses stays
// as it is, and nothing that was to go with it is lost.
func TestARowThatATriggerPassesOverStaysAsItIs(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`CREATE FUNCTION pass_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF EXISTS (SELECT FROM paused) AND (NEW.type = 'report' OR NEW.catalog_id = 'c' OR NEW.config ->> 'catalogId' = 'c') THEN RETURN NULL; END IF;
			RETURN NEW;
		END $$`)
	tb.exec(`CREATE TABLE paused ()`)
	tb.exec(`CREATE TRIGGER pass_over BEFORE INSERT OR UPDATE ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION public.pass_over()`)
	tb.exec(`ALTER FUNCTION pass_over() SET search_path = public`)
	report := one[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('report', '{"catalogId": "c"}')`)
	tb.exec(`INSERT INTO paused DEFAULT VALUES`)
	if r, err := tb.Reserve(t.Context(), 10); err != nil || len(r.Jobs) > 0 || r.Poisoned != nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	tb.exec(`DELETE FROM paused`)
	refresh := tb.enqueue("c", `["a"]`)
	tb.enqueue("c", `["b"]`) // an addition, which a fold would take
	tb.enqueueRR("c", `["m"]`)
	other := one[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('other')`)
	tb.exec(`INSERT INTO paused DEFAULT VALUES`)
	for range 3 {
		r, err := tb.Reserve(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range r.Jobs {
			if j.ID != other {
				t.Fatalf("job %d was reserved: %+v", j.ID, j)
			}
		}
	}
	if a, b := tb.status(report), tb.status(refresh); a != "PENDING" || b != "PENDING" {
		t.Fatalf("the jobs are %s and %s", a, b)
	}
	if ids := tb.ids(refresh); ids != `["a"]` {
		t.Fatalf("the job has the ids %s", ids)
	}
	tb.exec(`DELETE FROM paused`)
	got := map[int64]bool{}
	for _, j := range tb.reserve(10) {
		got[j.ID] = true
	}
	if !got[report] || !got[refresh] {
		t.Fatalf("reserved %v, want %d and %d", got, report, refresh)
	}
	if ids := tb.ids(refresh); ids != `["a", "b", "m"]` {
		t.Fatalf("the job has the ids %s", ids)
	}
}

// A requeue that a trigger passes over has not happened: whoever was told that it had would try again without an end, and a merge would
// add its ids each time.
func TestARequeueThatATriggerPassesOverSaysSoAndLeavesNothing(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		tb.exec(`CREATE FUNCTION pass_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
		first := map[string]int64{}
		for _, c := range []string{"returns", "merges", "dies", "replayed"} {
			first[c] = tb.enqueue(c, `["p1"]`)
			tb.exec(`UPDATE notifyworker.jobs SET max_attempts = $2 WHERE id = $1`, first[c], map[bool]int{true: 1, false: 9}[c == "dies"])
		}
		tb.reserve(4)
		tb.enqueue("merges", `["p2"]`)
		tb.exec(`SELECT notifyworker.cancel($1)`, first["replayed"])
		tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - interval '1 s' WHERE status = 'RUNNING'`)
		const all = `SELECT (SELECT string_agg(j::text, ';' ORDER BY j.id) FROM notifyworker.jobs j) || coalesce((SELECT string_agg(a::text, ';') FROM notifyworker.job_additions a), '')`
		before := one[string](tb, all)
		tb.exec(`CREATE TRIGGER pass_over BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.status <> 'PENDING') EXECUTE FUNCTION pass_over()`)
		rescued, err := tb.Rescue(t.Context(), 10)
		if len(rescued) != 0 {
			t.Errorf("rescued %+v", rescued)
		}
		for _, c := range []string{"returns", "merges", "dies"} {
			if says := fmt.Sprintf("job %d can't be returned: a trigger", first[c]); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got %v, which does not say %q", c, err, says)
			}
		}
		_, err = tb.pool.Exec(t.Context(), `SELECT notifyworker.replay($1)`, first["replayed"])
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "09000" || pg.Hint == "" {
			t.Errorf("a replay: %v", err)
		}
		if after := one[string](tb, all); after != before {
			t.Errorf("changed\nfrom %s\nto   %s", before, after)
		}
		tb.exec(`DROP TRIGGER pass_over ON notifyworker.jobs`)
		if rescued, err := tb.Rescue(t.Context(), 10); err != nil || len(rescued) != 3 {
			t.Errorf("without the trigger: %+v, %v", rescued, err)
		}
	})
}

// An enqueue can't tell a row that was passed over from one that a plain INSERT was quicker with: it looked again, for ever.
func TestAnEnqueueThatATriggerPassesOverSaysSo(t *testing.T) {
	for _, variant := range []string{"advisory", "cte"} {
		t.Run(variant, func(t *testing.T) {
			tb := newTable(t, queue.Config{}, pgtest.Variant(variant))
			tb.exec(`CREATE FUNCTION pass_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
			tb.exec(`CREATE TRIGGER pass_over BEFORE INSERT ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION pass_over()`)
			tb.exec(`ALTER DATABASE ` + tb.db.Name + ` SET statement_timeout = '10s'`)
			for _, call := range []string{
				`enqueue_price_refresh('c', '["p"]')`,
				`enqueue_full_refresh('c')`,
				`enqueue_price_refreshes('[{"catalogId": "c", "productIds": ["p"]}]')`,
				`enqueue_job('PRICE_REFRESH', '{"catalogId": "c", "productIds": ["p"]}')`,
			} {
				_, err := tb.db.Conn(t).Exec(t.Context(), `SELECT * FROM notifyworker.`+call)
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "09000" || !strings.Contains(pg.Message, "catalog c can't be enqueued: a trigger") || pg.Hint == "" {
					t.Errorf("%s: %v", call, err)
				}
			}
			if id := one[*int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('report')`); id != nil {
				t.Errorf("a job that was passed over has the id %d", *id)
			}
		})
	}
}
