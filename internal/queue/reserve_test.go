package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"
)

func TestReserveReturnsJobsWithTokensOldestDueFirst(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type, config, run_after, trace_id) VALUES ('b', '{"n": 2}', now() - interval '1 s', 'tr'), ('a', '{"n": 1}', now() - interval '2 s', NULL)`)
	r := tb.reserve(5)
	if len(r.Jobs) != 2 || r.Jobs[0].Type != "a" || r.Jobs[1].Type != "b" || r.Jobs[1].TraceID != "tr" {
		t.Fatalf("got %+v", r.Jobs)
	}
	if r.Jobs[0].Token == "" || r.Jobs[0].Token == r.Jobs[1].Token || r.Jobs[0].Attempt != 1 || string(r.Jobs[0].Config) != `{"n": 1}` {
		t.Fatalf("got %+v", r.Jobs[0])
	}
	if r.NextDue >= 0 || r.NextLease <= 0 || r.NextLease > queue.DefaultLease {
		t.Fatalf("next due %v, next lease %v", r.NextDue, r.NextLease)
	}
}

func TestReserveOfAnEmptyTableKnowsNothingToComeAfter(t *testing.T) {
	r := newTable(t).reserve(3)
	if len(r.Jobs) != 0 || r.NextDue != -1 || r.NextLease != -1 {
		t.Fatalf("got %+v", r)
	}
}

func TestReserveTellsWhenTheNextJobIsDue(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('later', delay => '30 s')`)
	if r := tb.reserve(3); len(r.Jobs) != 0 || r.NextDue < 25*time.Second || r.NextDue > 30*time.Second {
		t.Fatalf("got %+v", r)
	}
	// A marked addition with a delay counts too: no job stands for it yet.
	tb.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.enqueue_price_refresh('c', '["p"]', delay => '10 s'); COMMIT`)
	if r := tb.reserve(3); len(r.Jobs) != 0 || r.NextDue < 5*time.Second || r.NextDue > 10*time.Second {
		t.Fatalf("got %+v", r)
	}
}

func TestLooksThatFindADueJobLockedGrowApart(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('held')`)
	defer tb.lockJobs()()
	last := time.Duration(0)
	for range 12 {
		r := tb.reserve(1)
		if len(r.Jobs) != 0 || r.NextDue < last || r.NextDue <= 0 || r.NextDue > time.Second {
			t.Fatalf("got %+v after %v", r, last)
		}
		last = r.NextDue
	}
	if last != time.Second {
		t.Fatalf("the last look came after %v, not 1s", last)
	}
}

func TestTypesHaveLeasesOfTheirOwn(t *testing.T) {
	tb := newTable(t, func(c *queue.Config) {
		c.Types = map[string]queue.TypeSettings{"": {Lease: 20 * time.Second}, "long": {Lease: time.Hour}}
	})
	tb.exec(`SELECT notifyworker.enqueue_job('long'), notifyworker.enqueue_job('short')`)
	for _, j := range tb.reserve(2).Jobs {
		want := map[string]time.Duration{"long": time.Hour, "short": 20 * time.Second}[j.Type]
		if got := j.LeaseUntil.Sub(j.StartedAt); got != want {
			t.Errorf("%s has a lease of %v, want %v", j.Type, got, want)
		}
	}
}

func TestAJobThatCannotBeReservedDoesNotStopTheOthers(t *testing.T) {
	tb := newTable(t)
	tb.exec(`CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	tb.exec(`CREATE TRIGGER poison BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.catalog_id = 'bad' OR NEW.type = 'bad') EXECUTE FUNCTION raise()`)
	tb.enqueue("bad", `["p1"]`)
	tb.exec(`SELECT notifyworker.enqueue_job('bad')`)
	tb.enqueue("good", `["p2"]`)
	tb.exec(`SELECT notifyworker.enqueue_job('good')`)
	r := tb.reserve(10)
	if len(r.Jobs) != 2 || r.Poisoned == nil || !strings.Contains(r.Poisoned.Error(), "not this one") {
		t.Fatalf("got %d jobs, poisoned: %v", len(r.Jobs), r.Poisoned)
	}
	if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 2 {
		t.Fatalf("%d jobs wait, want the 2 bad ones", n)
	}
}

func TestAttemptsAtTheEndOfTheirRangeAreReserved(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type, attempts, max_attempts) VALUES ('x', 2147483647, 2147483647), ('x', 1500, 1)`)
	r := tb.reserve(5)
	if len(r.Jobs) != 2 || r.Jobs[0].Attempt != 2147483647 || r.Jobs[1].Attempt != 1501 {
		t.Fatalf("got %+v", r.Jobs)
	}
}

func TestReservationTakesABoundedNumberOfIDsAndLeavesTheRestInOrder(t *testing.T) {
	tb := newTable(t, func(c *queue.Config) { c.MaxIDs = 7 })
	tb.enqueue("c", `[1, 2, 3, 4, 5]`)
	tb.enqueue("c", `[6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]`)
	tb.enqueue("c", `[17]`)
	var got []string
	for range 3 {
		j := tb.one()
		if j.ProductCount > 7 {
			t.Fatalf("%d ids in one job", j.ProductCount)
		}
		got = append(got, value[string](tb, `SELECT string_agg(e, ' ' ORDER BY o) FROM jsonb_array_elements_text($1::text::jsonb -> 'productIds') WITH ORDINALITY x(e, o)`, string(j.Config)))
	}
	if want := "1 2 3 4 5 6 7|8 9 10 11 12 13 14|15 16 17"; strings.Join(got, "|") != want {
		t.Fatalf("got %s, want %s", strings.Join(got, "|"), want)
	}
}

func TestWhatIsPutBackInSeveralPiecesStaysInOrder(t *testing.T) {
	tb := newTable(t, func(c *queue.Config) { c.MaxIDs = 10 })
	tb.exec(`INSERT INTO notifyworker.jobs (type, config) SELECT 'PRICE_REFRESH', jsonb_build_object('catalogId', 'c', 'productIds', jsonb_agg(g)) FROM generate_series(1, 35000) g`)
	tb.reserve(1)
	got := value[string](tb, `SELECT string_agg(jsonb_array_length(product_ids) || ' from ' || (product_ids ->> 0), ', ' ORDER BY id) FROM notifyworker.job_additions WHERE catalog_id = 'c'`)
	if want := "9990 from 11, 10000 from 10001, 10000 from 20001, 5000 from 30001"; got != want {
		t.Errorf("what is left: %s, want %s", got, want)
	}
}

// A marked addition is no job yet. Where every look finds as many jobs as it asked for, it comes when it is its turn.
func TestAMarkedAdditionHasItsTurnAmongJobs(t *testing.T) {
	for _, limit := range []int{1, 3} {
		for _, careful := range []bool{false, true} {
			tb := newTable(t)
			tb.exec(`INSERT INTO notifyworker.jobs (type) SELECT 'before' FROM generate_series(1, 7)`)
			tb.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.enqueue_price_refresh('c', '["p"]'); COMMIT`)
			for range 20 {
				tb.exec(`INSERT INTO notifyworker.jobs (type) VALUES ('after')`)
			}
			var got []string
			for range 9 / limit {
				got = append(got, value[string](tb, `SELECT string_agg(type, ' ' ORDER BY created_at) FROM notifyworker.reserve($1, $2, 8000, p_careful => $3)`, limit, workerA, careful))
			}
			if want := "before before before before before before before after PRICE_REFRESH"; limit == 3 && strings.Join(got, " ") != want {
				t.Errorf("three at a time, careful %v: %s", careful, strings.Join(got, " "))
			}
			if want := "before before before before before before before PRICE_REFRESH after"; limit == 1 && strings.Join(got, " ") != want {
				t.Errorf("one at a time, careful %v: %s", careful, strings.Join(got, " "))
			}
		}
	}
}

// One whose catalog has a waiting job is had with that job, also while it can't be known as that job's, since somebody is adding.
// Until the job is due it must not have others come before their turn.
func TestAMarkedAdditionThatWaitsForAJobLetsOthersWait(t *testing.T) {
	tb := newTable(t)
	marked := func(catalog string) {
		tb.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.enqueue_price_refresh('` + catalog + `', '["p"]'); COMMIT`)
	}
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('later', '["p"]', delay => '1 hour')`)
	marked("later")
	client, err := tb.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh('later', '["q"]')`); err != nil {
		t.Fatal(err)
	}
	tb.exec(`INSERT INTO notifyworker.jobs (type) VALUES ('t')`)
	marked("now")
	if j := tb.reserve(1).Jobs; len(j) != 1 || j[0].Type != "t" {
		t.Errorf("got %+v, want the job that has waited for longer", j)
	}
	if j := tb.reserve(1).Jobs; len(j) != 1 || j[0].CatalogID != "now" {
		t.Errorf("got %+v, want the addition that has no job", j)
	}
	if err := client.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Whoever holds an addition's row, a person or a wake-up, makes the reservation pass over it: it must not stay behind alone.
func TestAnAdditionThatSomebodyHasLockedIsLeftToASuccessor(t *testing.T) {
	tb := newTable(t)
	ctx := context.Background()
	tb.enqueue("c", `["p1"]`)
	tb.enqueue("c", `["p2"]`)
	tx, err := tb.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM notifyworker.job_additions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if j := tb.one(); j.ProductCount != 1 {
		t.Errorf("reserved %d ids while one is locked, want 1", j.ProductCount)
	}
	if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING' AND successor`); n != 1 {
		t.Errorf("%d successors, want 1", n)
	}
	tb.exec(`UPDATE notifyworker.jobs SET run_after = now() - interval '1 s' WHERE successor`)
	if r := tb.reserve(1); len(r.Jobs) != 0 {
		t.Errorf("reserved %+v while the addition is still locked, want nothing", r.Jobs)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	tb.exec(`UPDATE notifyworker.jobs SET run_after = now() WHERE successor`)
	if j := tb.one(); j.ProductCount != 1 {
		t.Errorf("reserved %d ids afterwards, want the other one", j.ProductCount)
	}
}
