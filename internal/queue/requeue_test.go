package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"
)

func TestRequeueMergesIntoTheWaitingJob(t *testing.T) {
	tb := newTable(t)
	a := tb.enqueue("c", `["p1", "p2"]`)
	j := tb.one()
	b := tb.enqueue("c", `["p9"]`)
	if a == b {
		t.Fatal("a running job was joined")
	}
	out := tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: "busy", Note: []byte(`{"why": "x"}`), Delay: time.Hour})
	if out.Verdict != queue.Merged || out.MergedInto != b {
		t.Fatalf("got %+v, want merged into %d", out, b)
	}
	if s := value[string](tb, `SELECT status || ' ' || result FROM notifyworker.jobs WHERE id = $1`, a); s != fmt.Sprintf(`COMPLETED {"why": "x", "mergedIntoJobId": %d}`, b) {
		t.Errorf("the merged job is %s", s)
	}
	// The waiting job's due time is its own.
	if j = tb.one(); j.ID != b || string(j.Config) != `{"catalogId": "c", "productIds": ["p9", "p1", "p2"]}` || j.Attempt != 1 {
		t.Errorf("got %+v with %s", j, j.Config)
	}
}

func TestRequeueWithoutACompetitorReturnsTheRow(t *testing.T) {
	tb := newTable(t)
	tb.enqueue("c", `["p1"]`)
	other := tb.enqueue("other", `["q"]`)
	tb.exec(`UPDATE notifyworker.jobs SET run_after = now() + interval '1 h' WHERE id = $1`, other)
	j := tb.one()
	out := tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseFailed, Err: "oops"})
	if out.Verdict != queue.Requeued || tb.status(j.ID) != "PENDING" {
		t.Fatalf("got %+v", out)
	}
	again := tb.one()
	if again.ID != j.ID || again.Attempt != 2 || again.Token == j.Token {
		t.Errorf("got %+v", again)
	}
	if n := value[int](tb, `SELECT product_count FROM notifyworker.jobs WHERE id = $1`, other); n != 1 {
		t.Errorf("the other catalog's job has %d ids", n)
	}
}

func TestALostReservationWritesNothing(t *testing.T) {
	tb := newTable(t)
	tb.enqueue("c", `["p1"]`)
	j := tb.one()
	before := value[string](tb, `SELECT j::text FROM notifyworker.jobs j`)
	for _, c := range []queue.Cause{queue.CauseRefused, queue.CauseFailed, queue.CausePermanent, queue.CauseReleased} {
		if out := tb.requeue(queue.Return{ID: j.ID, Token: workerB, Cause: c}); out.Verdict != queue.Gone {
			t.Errorf("%s: got %+v", c, out)
		}
	}
	if out := tb.requeue(queue.Return{ID: j.ID + 99, Token: j.Token, Cause: queue.CauseFailed}); out.Verdict != queue.Gone {
		t.Errorf("unknown job: got %+v", out)
	}
	if after := value[string](tb, `SELECT j::text FROM notifyworker.jobs j`); after != before {
		t.Errorf("changed\nfrom %s\nto   %s", before, after)
	}
}

func TestTheAttemptLimitIsADeadLetterWithItsIDs(t *testing.T) {
	tb := newTable(t)
	id := tb.enqueue("c", `["p1", 7]`)
	tb.exec(`UPDATE notifyworker.jobs SET max_attempts = 2`)
	for attempt := 1; ; attempt++ {
		j := tb.one()
		out := tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: "still busy"})
		if attempt < 2 && out.Verdict == queue.Requeued {
			continue
		}
		if attempt != 2 || out.Verdict != queue.Dead {
			t.Fatalf("attempt %d: %+v", attempt, out)
		}
		break
	}
	if s := value[string](tb, `SELECT status || config || error FROM notifyworker.jobs WHERE id = $1`, id); s != `FAILED{"catalogId": "c", "productIds": ["p1", 7]}still busy` {
		t.Fatalf("got %s", s)
	}
	if s := value[string](tb, `SELECT outcome FROM notifyworker.replay($1)`, id); s != "requeued" {
		t.Fatalf("replay: %s", s)
	}
	if j := tb.one(); j.ID != id || j.Attempt != 1 || j.ProductCount != 2 {
		t.Errorf("replayed: %+v", j)
	}
}

func TestATypesOwnLimitCapsTheRows(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t', max_attempts => 5)`)
	j := tb.one()
	if out := tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseFailed, Limit: 1}); out.Verdict != queue.Dead {
		t.Errorf("got %+v", out)
	}
}

func TestAReleaseCostsNoAttempt(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t', max_attempts => 1)`)
	for range 3 {
		j := tb.one()
		if out := tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseReleased}); out.Verdict != queue.Requeued || j.Attempt != 1 {
			t.Fatalf("got %+v for %+v", out, j)
		}
	}
}

func TestRequeueOfALockedRowIsBusyAndWaitsForNobody(t *testing.T) {
	tb := newTable(t)
	tb.enqueue("c", `["p"]`)
	j := tb.one()
	defer tb.lockJobs()()
	if out := tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseFailed}); out.Verdict != queue.Busy {
		t.Errorf("got %+v", out)
	}
}

func TestErrorsAndDelaysAreBounded(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t')`)
	j := tb.one()
	tb.requeue(queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseFailed, Err: strings.Repeat("é", 1<<20), Delay: 1<<63 - 1})
	if s := value[string](tb, `SELECT length(error) || ' ' || (run_after BETWEEN now() + interval '9 years' AND now() + interval '11 years') FROM notifyworker.jobs`); s != "8000 true" {
		t.Errorf("got %s", s)
	}
}

func TestRescueLeadsExpiredJobsThroughTheDoorOneByOne(t *testing.T) {
	tb := newTable(t)
	tb.exec(`CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	for _, c := range []string{"bad", "merges", "returns", "dies", "lives"} {
		tb.enqueue(c, `["p1"]`)
	}
	ids := map[string]int64{}
	for _, j := range tb.reserve(5).Jobs {
		ids[j.CatalogID] = j.ID
	}
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - interval '1 s' WHERE catalog_id <> 'lives'`)
	tb.exec(`UPDATE notifyworker.jobs SET max_attempts = 1 WHERE catalog_id = 'dies'`)
	waiting := tb.enqueue("merges", `["p2"]`)
	tb.exec(`CREATE TRIGGER poison BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.catalog_id = 'bad') EXECUTE FUNCTION raise()`)
	rescued, err := tb.Rescue(t.Context(), 100)
	if err == nil || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("error: %v", err)
	}
	got := map[int64]queue.Returned{}
	for _, r := range rescued {
		got[r.ID] = r.Returned
	}
	want := map[int64]queue.Returned{
		ids["merges"]: {Verdict: queue.Merged, MergedInto: waiting}, ids["returns"]: {Verdict: queue.Requeued}, ids["dies"]: {Verdict: queue.Dead},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := tb.status(ids["lives"]); s != "RUNNING" {
		t.Errorf("a job with a living lease is %s", s)
	}
}
