package integration

import (
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

// The variant cte has neither additions nor successors: what would leave some there does not, and those of the default variant
// harm nobody.

func TestUnderVariantCTEACancelLeavesNoSuccessor(t *testing.T) {
	tb := newTable(t, queue.Config{}, pgtest.Variant("cte"))
	first := tb.enqueue("c", `["p1"]`)
	tb.exec(`SELECT notifyworker.cancel($1)`, first)
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 0 {
		t.Fatalf("%d jobs wait after the cancel", n)
	}
	second := tb.enqueue("c", `["p2"]`)
	if j := tb.reserveOne(); j.ID != second || tb.ids(second) != `["p2"]` {
		t.Fatalf("job %d was reserved with %s, want %d", j.ID, tb.ids(j.ID), second)
	}
}

func TestUnderVariantCTEWhoWaitsForACancelInsertsAJob(t *testing.T) {
	tb := newTable(t, queue.Config{}, pgtest.Variant("cte"))
	first := tb.enqueue("c", `["p1"]`)
	person := tb.begin("READ COMMITTED")
	tb.run(person, `SELECT notifyworker.cancel($1)`, first)
	end := tb.later(tb.db.Conn(t), `SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
	tb.commit(person)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if j := tb.reserveOne(); j.ID == first || tb.ids(j.ID) != `["p2"]` || tb.ids(first) != `["p1"]` {
		t.Fatalf("job %d was reserved with %s; the first has %s", j.ID, tb.ids(j.ID), tb.ids(first))
	}
}

func TestUnderVariantCTEASuccessorBecomesAJobLikeAnyOther(t *testing.T) {
	for name, meet := range map[string]func(tb *table, running queue.Job){
		"an enqueue":   func(tb *table, _ queue.Job) { tb.enqueue("c", `["p1"]`) },
		"a requeue":    func(tb *table, running queue.Job) { tb.requeue(running, queue.CauseRefused) },
		"its own time": func(tb *table, running queue.Job) { tb.complete(running) },
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, queue.Config{}, pgtest.Variant("cte"))
			tb.enqueue("c", `["p1"]`)
			running := tb.reserveOne()
			left := one[int64](tb, `INSERT INTO notifyworker.jobs (type, successor, config) VALUES ('PRICE_REFRESH', true, '{"catalogId": "c", "productIds": []}') RETURNING id`)
			meet(tb, running)
			want := `["p1"]`
			if name == "its own time" {
				want = `[]`
			}
			if j := tb.reserveOne(); j.ID != left || tb.ids(left) != want {
				t.Fatalf("job %d was reserved with %s, want %d with %s", j.ID, tb.ids(j.ID), left, want)
			}
		})
	}
}

func TestTheVariantBecomesCTEOnlyWhenNothingWaitsInJobAdditions(t *testing.T) {
	tb := newTable(t, queue.Config{})
	change := func(variant string) error {
		t.Helper()
		_, err := migrations.Up(t.Context(), tb.db.Conn(t), migrations.Options{Triggers: triggers.Files, Variant: variant})
		return err
	}
	refused := func(why string) {
		t.Helper()
		if err := change("cte"); err == nil || !strings.Contains(err.Error(), "let the workers take all that waits") {
			t.Fatalf("%s: got %v", why, err)
		}
		if v, err := migrations.Variant(t.Context(), tb.db.Conn(t), ""); err != nil || v != "advisory" {
			t.Fatalf("%s: the variant is %q, %v", why, v, err)
		}
	}
	tb.enqueue("c", `["p1"]`)
	tb.enqueue("c", `["p2"]`)
	refused("an addition")
	client := tb.begin("READ COMMITTED")
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p3"]')`)
	tb.reserveOne()
	tb.run(client, `ROLLBACK`)
	refused("a successor")
	tb.due()
	if js := tb.reserve(1); len(js) != 0 {
		t.Fatalf("reserved %+v", js)
	}
	// A job that is all of what waits goes along, and so does what a sweep has to settle.
	last := tb.enqueue("c", `["p4"]`)
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, from_job_id, job_id)
		VALUES ('00000000-0000-0000-0000-000000000000', '', '[]', $1, $1)`, last)
	if err := change("cte"); err != nil {
		t.Fatal(err)
	}
	// From cte to cte nothing changes hands: additions that are there are the sweep's.
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids) VALUES ('00000000-0000-0000-0000-000000000000', 'd', '["p5"]')`)
	tb.exec(`DROP TRIGGER jobs_freeze ON notifyworker.jobs`)
	if err := change("cte"); err != nil {
		t.Fatal(err)
	}
	if j := tb.reserveOne(); j.ID != last {
		t.Fatalf("job %d was reserved, want %d", j.ID, last)
	}
}
