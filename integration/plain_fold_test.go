package integration

import (
	"testing"

	"notifyworker/internal/queue"
)

// Additions of one id each are gathered in another way than others: what the job takes from them is the same, each id once.
func TestAJobTakesFromItsAdditionsWhoAskedFirst(t *testing.T) {
	for name, last := range map[string]string{"one id each": `["p5"]`, "and one of two": `["p5", "p6"]`} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, queue.Config{})
			tb.enqueue("c", `["p1"]`)
			tb.enqueue("c", `["p2"]`)
			tb.enqueue("c", `["p1"]`)
			tb.enqueue("c", `["p2"]`)
			for _, add := range [][]any{
				{`["p3"]`, "t3", nil},
				{`["p4"]`, "t4", "00000000-0000-0000-0000-000000000004"},
				{last, nil, "00000000-0000-0000-0000-000000000005"},
			} {
				tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', $1::jsonb, trace_id => $2, operated_by => $3)`, add...)
			}
			j := tb.reserveOne()
			if got := one[string](tb, `SELECT concat_ws(' ', trace_id, operated_by) FROM notifyworker.jobs WHERE id = $1`, j.ID); got != "t3 00000000-0000-0000-0000-000000000004" {
				t.Errorf("the job says %s", got)
			}
			if got, want := tb.ids(j.ID), `["p1", "p2", "p3", "p4", `+last[1:]; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			tb.complete(j)
			tb.sound()
		})
	}
}

func TestAJobTakesTheWishForTheWholeCatalogFromAnAdditionOfOneID(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.enqueue("c", `["p1"]`)
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, full_refresh) VALUES ('00000000-0000-0000-0000-000000000000', 'c', '["p2"]', true)`)
	j := tb.reserveOne()
	if !one[bool](tb, `SELECT config @> '{"full": true}' FROM notifyworker.jobs WHERE id = $1`, j.ID) || tb.ids(j.ID) != `["p1", "p2"]` {
		t.Errorf("job %d has %s", j.ID, j.Config)
	}
	tb.complete(j)
	tb.sound()
}

func TestAJobThatIsFullTakesNothingFromAdditionsThatItLeaves(t *testing.T) {
	tb := newTable(t, queue.Config{MaxIDs: 1})
	tb.enqueue("c", `["p1"]`)
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', '["p2"]', trace_id => 't', operated_by => '00000000-0000-0000-0000-000000000002')`)
	j := tb.reserveOne()
	if got := one[string](tb, `SELECT concat_ws(' ', trace_id, operated_by) FROM notifyworker.jobs WHERE id = $1`, j.ID); got != "" || tb.ids(j.ID) != `["p1"]` {
		t.Errorf("the job of %s says %s", tb.ids(j.ID), got)
	}
	tb.complete(j)
	tb.due()
	next := tb.reserveOne()
	if got := one[string](tb, `SELECT trace_id FROM notifyworker.jobs WHERE id = $1`, next.ID); got != "t" || tb.ids(next.ID) != `["p2"]` {
		t.Errorf("the job of %s says %s", tb.ids(next.ID), got)
	}
	tb.complete(next)
	tb.sound()
}

// What a trigger of the user's suppresses stays as it is, so a job must not have its ids.
func TestAnAdditionThatATriggerKeepsIsNotTaken(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RETURN CASE WHEN OLD.product_ids <> '["p3"]' THEN OLD END;
		END $$`)
	tb.exec(`CREATE TRIGGER keep BEFORE DELETE ON notifyworker.job_additions FOR EACH ROW EXECUTE FUNCTION keep()`)
	for _, ids := range []string{`["p1"]`, `["p2"]`, `["p3"]`, `["p4"]`} {
		tb.enqueue("c", ids)
	}
	j := tb.reserveOne()
	if got := tb.ids(j.ID); got != `["p1", "p2", "p4"]` {
		t.Errorf("got %s", got)
	}
	tb.exec(`DROP TRIGGER keep ON notifyworker.job_additions`)
	tb.complete(j)
	tb.due()
	next := tb.reserveOne()
	if got := tb.ids(next.ID); got != `["p3"]` {
		t.Errorf("got %s", got)
	}
	tb.complete(next)
	tb.sound()
}
