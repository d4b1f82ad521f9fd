package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

// Cases of the field: the unique index, merging and requeueing. The numbers are those of the collection of reports that the
// project keeps; each test's name says what must hold.

func TestB04JobsOfACatalogThatComeBackTogetherAreOneWithAllIDs(t *testing.T) {
	tb := newTable(t, queue.Config{})
	var jobs []queue.Job
	for i := range 3 {
		tb.enqueue("c", fmt.Sprintf(`["p%d"]`, i))
		jobs = append(jobs, tb.reserveOne())
	}
	for _, j := range jobs {
		out, err := tb.Requeue(t.Context(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseFailed, Err: "no", Delay: time.Minute})
		if err != nil || (out.Verdict != queue.Requeued && out.Verdict != queue.Merged) {
			t.Fatalf("got %+v, %v", out, err)
		}
	}
	tb.due()
	j := tb.reserveOne()
	if got := tb.ids(j.ID); got != `["p0", "p1", "p2"]` {
		t.Errorf("got %s", got)
	}
	for _, x := range jobs {
		if x.ID != j.ID && tb.into(x.ID) != j.ID {
			t.Errorf("job %d says that it was merged into %d, want %d", x.ID, tb.into(x.ID), j.ID)
		}
	}
}

func TestB04DeadLettersOfACatalogReplayedTogetherAreOneWithAllIDs(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, finished_at, config)
		SELECT 'PRICE_REFRESH', 'FAILED', now(), jsonb_build_object('catalogId', 'c', 'productIds', jsonb_build_array(g)) FROM generate_series(1, 50) g`)
	tb.exec(`SELECT notifyworker.replay(id) FROM notifyworker.jobs ORDER BY id`) // one statement, one transaction
	j := tb.reserveOne()
	if j.ProductCount != 50 {
		t.Errorf("got %d ids of 50", j.ProductCount)
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE (result ->> 'mergedIntoJobId')::bigint = $1`, j.ID); n != 49 {
		t.Errorf("%d of 49 say who has their ids", n)
	}
}

func TestB07AnEnqueueNeverTouchesARunningJob(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		a := tb.enqueue("c", `["p0"]`)
		tb.reserveOne()
		before := one[string](tb, `SELECT j::text FROM notifyworker.jobs j WHERE id = $1`, a)
		for i := range 100 {
			tb.enqueue("c", fmt.Sprintf(`["p%d"]`, i+1))
		}
		if after := one[string](tb, `SELECT j::text FROM notifyworker.jobs j WHERE id = $1`, a); after != before {
			t.Errorf("the running job changed\nfrom %s\nto   %s", before, after)
		}
		if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 1 {
			t.Errorf("%d jobs wait, want 1", n)
		}
		if j := tb.reserveOne(); j.ProductCount != 100 {
			t.Errorf("the new job has %d of 100 ids", j.ProductCount)
		}
	})
}

func TestB08ProductIDsThatAreNoArrayAreRefusedWithAHint(t *testing.T) {
	tb := newTable(t, queue.Config{})
	a := tb.enqueue("c", `["p1"]`)
	for _, bad := range []string{`null`, `"p1"`, `{"p1": true}`, `7`, `true`, `[["p1"]]`, `[null]`, `[{"id": "p1"}]`, `[true]`} {
		config := `{"catalogId": "c", "productIds": ` + bad + `}`
		for name, sql := range map[string]string{
			"enqueue":      `SELECT notifyworker.enqueue_price_refresh('c', $1::jsonb -> 'productIds')`,
			"enqueue many": `SELECT notifyworker.enqueue_price_refreshes(jsonb_build_array($1::jsonb))`,
			"enqueue job":  `SELECT notifyworker.enqueue_job('PRICE_REFRESH', $1::jsonb)`,
			"raw INSERT":   `INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', $1::jsonb)`,
			"raw UPDATE":   `UPDATE notifyworker.jobs SET config = $1::jsonb`,
		} {
			_, err := tb.pool.Exec(t.Context(), sql, config)
			var pg *pgconn.PgError
			// 23514: the table's own rule, for a hand that changes a waiting job.
			if !errors.As(err, &pg) || (pg.Code != "22023" && (name != "raw UPDATE" || pg.Code != "23514")) || (pg.Code == "22023" && pg.Hint == "") {
				if name == "raw UPDATE" && err == nil && strings.HasPrefix(bad, "[") {
					tb.exec(`UPDATE notifyworker.jobs SET config = '{"catalogId": "c", "productIds": ["p1"]}'`)
					continue // an array with odd elements put in by hand: the array is kept
				}
				t.Errorf("%s of %s: %v", name, bad, err)
			}
		}
	}
	if got := tb.ids(a); got != `["p1"]` || one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`) != 0 {
		t.Errorf("the waiting job has %s", got)
	}
}

func TestB08AJobWithoutProductIDsIsRefused(t *testing.T) {
	tb := newTable(t, queue.Config{})
	for _, sql := range []string{
		`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c"}')`,
		`SELECT notifyworker.enqueue_job('PRICE_REFRESH', '{"catalogId": "c"}')`,
		`SELECT notifyworker.enqueue_price_refreshes('[{"catalogId": "c"}]')`,
		`SELECT notifyworker.enqueue_price_refresh('c', NULL)`,
	} {
		_, err := tb.pool.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.Contains(pg.Message, "missing") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestB10AJobThatCannotGoBackAffectsNoOther(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
		CREATE TRIGGER poison BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.catalog_id = 'bad' AND NEW.status = 'PENDING') EXECUTE FUNCTION raise()`)
	for _, c := range []string{"bad", "good", "better"} {
		tb.enqueue(c, `["p"]`)
	}
	jobs := tb.reserve(10)
	for _, j := range jobs {
		_, err := tb.Requeue(t.Context(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseFailed})
		if (err != nil) != (j.CatalogID == "bad") {
			t.Errorf("%s: %v", j.CatalogID, err)
		}
	}
	if n := len(tb.reserve(10)); n != 2 {
		t.Errorf("%d jobs came back, want 2", n)
	}
}

func TestB11ARescueDoesNotUndoACompletionThatCameBetween(t *testing.T) {
	tb := newTable(t, queue.Config{})
	id := tb.enqueue("c", `["p"]`)
	j := tb.reserveOne()
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - interval '1 s'`)
	// The worker's completion is under way, and not yet committed, when the rescue looks.
	worker := tb.begin("READ COMMITTED")
	st, err := queue.New(queue.Config{DB: worker, WorkerID: workerID})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := st.Complete(t.Context(), []queue.Completion{{ID: j.ID, Token: j.Token}}); err != nil || len(done.Done) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 0 {
		t.Errorf("rescued %+v, %v", r, err)
	}
	tb.commit(worker)
	if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 0 {
		t.Errorf("rescued %+v, %v", r, err)
	}
	if s := tb.status(id); s != "COMPLETED" {
		t.Errorf("the job is %s", s)
	}
}

func TestB11ARescueDoesNotUndoAHeartbeatThatCameBetween(t *testing.T) {
	tb := newTable(t, queue.Config{})
	id := tb.enqueue("c", `["p"]`)
	j := tb.reserveOne()
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - interval '1 s'`)
	worker := tb.begin("READ COMMITTED")
	st, err := queue.New(queue.Config{DB: worker, WorkerID: workerID})
	if err != nil {
		t.Fatal(err)
	}
	if lost, _, err := st.Extend(t.Context(), []queue.Held{{ID: j.ID, Token: j.Token}}); err != nil || len(lost) != 0 {
		t.Fatalf("%v, %v", lost, err)
	}
	if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 0 {
		t.Errorf("rescued %+v, %v", r, err)
	}
	tb.commit(worker)
	if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 0 || tb.status(id) != "RUNNING" {
		t.Errorf("rescued %+v, %v; the job is %s", r, err, tb.status(id))
	}
	// The rescue has seen the old lease, and comes to the job after the heartbeat's commit.
	if s := one[string](tb, `SELECT outcome FROM notifyworker.requeue($1, 'rescued', NULL)`, id); s != "lost" {
		t.Errorf("a rescue of a job with a living lease: %s", s)
	}
}

func TestB15PurgeRemovesNothingThatWaitsOrRuns(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, finished_at, created_at, updated_at, run_after, lock_token, lease_expires_at, started_at)
		SELECT 't', s, CASE WHEN s IN ('COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED') THEN now() - a END, now() - a, now() - a, now() - a,
		       CASE WHEN s = 'RUNNING' THEN gen_random_uuid() END, CASE WHEN s = 'RUNNING' THEN now() - a END, now() - a
		  FROM unnest(ARRAY['PENDING', 'RUNNING', 'COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED']) s, unnest(ARRAY[interval '1 year', interval '1 h']) a`)
	left := func() string {
		return one[string](tb, `SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM notifyworker.jobs GROUP BY status) x`)
	}
	if _, err := tb.Purge(t.Context(), queue.Retention{Completed: 24 * time.Hour}, 100); err != nil {
		t.Fatal(err)
	}
	if want := "COMPLETED 1, COMPLETED_WITH_ERRORS 1, FAILED 2, PENDING 2, RUNNING 2"; left() != want {
		t.Errorf("left are %s, want %s", left(), want)
	}
	if _, err := tb.Purge(t.Context(), queue.Retention{Failed: 24 * time.Hour}, 100); err != nil {
		t.Fatal(err)
	}
	if want := "COMPLETED 1, COMPLETED_WITH_ERRORS 1, FAILED 1, PENDING 2, RUNNING 2"; left() != want {
		t.Errorf("left are %s, want %s", left(), want)
	}
}

func TestB15APurgedMergedJobHoldsUpNothingThatWaits(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.enqueue("c", `["p1"]`)
	j := tb.reserveOne()
	tb.enqueue("c", `["p2"]`)
	tb.requeue(j, queue.CauseRefused)
	tb.exec(`UPDATE notifyworker.jobs SET finished_at = now() - interval '1 year' WHERE id = $1`, j.ID)
	if p, err := tb.Purge(t.Context(), queue.Retention{Completed: time.Hour}, 10); err != nil || p.Jobs != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	taker := tb.reserveOne()
	if got := tb.ids(taker.ID); got != `["p2", "p1"]` {
		t.Errorf("got %s", got)
	}
}

func TestB30LeasesThatEndedAreFoundAmongManyThatDidNot(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, lock_token, lease_expires_at, started_at)
		SELECT 't', 'RUNNING', gen_random_uuid(), now() + CASE WHEN g > 10000 THEN interval '-1 s' ELSE interval '1 h' END, now()
		  FROM generate_series(1, 10005) g`)
	r, err := tb.Rescue(context.Background(), 5)
	if err != nil || len(r) != 5 {
		t.Fatalf("rescued %d of 5, %v", len(r), err)
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 5 {
		t.Errorf("%d jobs wait, want 5", n)
	}
}
