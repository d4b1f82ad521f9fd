package integration

import (
	"fmt"
	"testing"

	"notifyworker/internal/queue"
)

// Jobs that can't be reserved are due first for ever. There may be as many of them as a worker has free slots.
func TestJobsThatCannotBeReservedHideNoOthers(t *testing.T) {
	for _, trigger := range []string{
		`BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.type = 'bad' OR OLD.catalog_id LIKE 'bad%') EXECUTE FUNCTION refuse('raise')`,
		`BEFORE UPDATE OF status ON notifyworker.jobs FOR EACH ROW WHEN (OLD.type = 'bad' OR OLD.catalog_id LIKE 'bad%') EXECUTE FUNCTION refuse('raise')`,
		`BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.type = 'bad' OR OLD.catalog_id LIKE 'bad%') EXECUTE FUNCTION refuse('pass over')`,
		`BEFORE UPDATE OF status ON notifyworker.jobs FOR EACH ROW WHEN (OLD.type = 'bad' OR OLD.catalog_id LIKE 'bad%') EXECUTE FUNCTION refuse('pass over')`,
	} {
		for _, slots := range []int{1, 8} {
			tb := newTable(t, queue.Config{})
			tb.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF TG_ARGV[0] = 'raise' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NULL; END $$`)
			tb.exec(`SELECT notifyworker.enqueue_job('bad') FROM generate_series(1, 15)`)
			for i := range 15 {
				tb.enqueue(fmt.Sprint("bad", i), `["p"]`)
			}
			tb.exec(`SELECT notifyworker.enqueue_job('good')`)
			tb.exec(`CREATE TRIGGER refuse ` + trigger)
			r, err := tb.Reserve(t.Context(), slots)
			if err != nil || len(r.Jobs) != 1 || r.Jobs[0].Type != "good" || r.Poisoned == nil {
				t.Errorf("%s, %d slots: got %+v, %v, poisoned: %v", trigger, slots, r.Jobs, err, r.Poisoned)
			}
			tb.exec(`DROP TRIGGER refuse ON notifyworker.jobs`)
			tb.due()
			for range 30 / slots {
				tb.complete(tb.reserve(slots)...)
			}
			if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n > 30%slots {
				t.Errorf("%s, %d slots: %d wait though nothing refuses them any more", trigger, slots, n)
			}
		}
	}
}

// Of a whole type that a trigger refuses there may be thousands. A look tries so many at most, and puts them off.
func TestThousandsOfJobsThatCannotBeReservedHideOthersForALookOrTwo(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`INSERT INTO notifyworker.jobs (type) SELECT 'bad' FROM generate_series(1, 1100)`)
	tb.exec(`SELECT notifyworker.enqueue_job('good')`)
	tb.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	tb.exec(`CREATE TRIGGER refuse BEFORE UPDATE OF status ON notifyworker.jobs FOR EACH ROW WHEN (OLD.type = 'bad') EXECUTE FUNCTION refuse()`)
	for range 2 {
		r, err := tb.Reserve(t.Context(), 8)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Jobs) == 1 && r.Jobs[0].Type == "good" {
			return
		}
	}
	t.Error("what comes behind them is not had")
}

func TestMarkedAdditionsThatCannotBeReservedHideNoOthers(t *testing.T) {
	tb := newTable(t, queue.Config{})
	for i := range 5 {
		tb.enqueueRR(fmt.Sprint("bad", i), `["p"]`)
	}
	tb.enqueueRR("good", `["p"]`)
	tb.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	tb.exec(`CREATE TRIGGER refuse BEFORE INSERT ON notifyworker.jobs FOR EACH ROW WHEN (NEW.config ->> 'catalogId' LIKE 'bad%') EXECUTE FUNCTION refuse()`)
	for range 6 { // a look has one slot
		r, err := tb.Reserve(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Jobs) == 1 {
			if r.Jobs[0].CatalogID != "good" {
				t.Errorf("got %+v", r.Jobs[0])
			}
			return
		}
	}
	t.Error("what comes behind them is not had")
}

// Marked additions of a catalog whose job is not due, and those of a tenant that is gone, can't become a job for long.
func TestMarkedAdditionsThatHaveToWaitHideNoOthers(t *testing.T) {
	tb := newTable(t, queue.Config{})
	winter := one[int64](tb, `SELECT job_id FROM notifyworker.enqueue_price_refresh('winter', '["w"]', delay => '1 hour')`)
	for i := range 30 {
		tb.enqueueRR("winter", fmt.Sprintf(`["w%d"]`, i))
		tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked) VALUES ($1, 'c', '["gone"]', true)`, otherTenant)
	}
	tb.enqueueRR("summer", `["s"]`)
	tb.exec(`INSERT INTO notifyworker.jobs (type) SELECT 'busy' FROM generate_series(1, 10)`)
	if js := tb.reserve(1); len(js) != 1 || js[0].CatalogID != "summer" {
		t.Errorf("got %+v, want the addition that has waited for longer than the jobs", js)
	}
	tb.complete(tb.reserve(10)...)
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions WHERE marked AND run_after <= now()`); n != 0 {
		t.Errorf("%d marked additions stand before all others", n)
	}
	tb.sound()
	tb.due()
	if j := tb.reserveOne(); j.ID != winter || j.ProductCount != 31 {
		t.Errorf("got %+v, want job %d with all ids of its catalog", j, winter)
	}
	tb.exec(`INSERT INTO notifyworker.tenants (id, name) VALUES ($1, 'back')`, otherTenant)
	tb.exec(`UPDATE notifyworker.job_additions SET run_after = now()`)
	if j := tb.reserveOne(); tb.ids(j.ID) != `["gone"]` {
		t.Errorf("got %s", j.Config)
	}
}

// Who is adding to a catalog may have seen its job, and whoever takes that job meanwhile may not know of what is marked.
func TestMarkedAdditionsStayMarkedWhileSomebodyIsAdding(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('winter', '["w"]', delay => '1 hour')`)
	tb.enqueueRR("winter", `["m"]`)
	marked := func() int {
		tb.reserve(5)
		return one[int](tb, `SELECT count(*) FROM notifyworker.job_additions WHERE marked`)
	}
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('winter', '["x"]')`)
	if n := marked(); n != 1 {
		t.Errorf("%d are marked, want 1", n)
	}
	tb.run(client, "ROLLBACK")
	if n := marked(); n != 0 {
		t.Errorf("%d are marked, want 0", n)
	}
}

// While nobody may have them, nobody pays for them either: a look reads so many at most.
func TestALookReadsABoundedNumberOfMarkedAdditions(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('winter', '["w"]', delay => '1 hour')`)
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked) SELECT $1, 'winter', '["w"]', true FROM generate_series(1, 3500)`, queue.DefaultTenant)
	tb.enqueueRR("summer", `["s"]`)
	for looks := 1; ; looks++ {
		r, err := tb.Reserve(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Jobs) == 1 && r.Jobs[0].CatalogID == "summer" {
			break
		}
		if looks > 5 || r.NextDue != 0 && r.NextDue > 1e9 {
			t.Fatalf("after %d looks: %+v", looks, r)
		}
	}
	tb.sound()
}
