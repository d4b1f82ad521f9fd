package integration

import (
	"testing"
	"time"

	"notifyworker/internal/queue"
)

func TestMarkedAdditionsWaitForTheirCatalogsJob(t *testing.T) {
	tb := newTable(t, queue.Config{})
	waits := one[int64](tb, `SELECT job_id FROM notifyworker.enqueue_price_refresh('c', '["p1"]', delay => '1 hour')`)
	tb.enqueueRR("c", `["p2"]`)
	if jobs := tb.reserve(10); len(jobs) != 0 {
		t.Fatalf("a job of its own was made: %s", jobs[0].Config)
	}
	tb.due()
	if j := tb.reserveOne(); j.ID != waits || tb.ids(waits) != `["p1", "p2"]` {
		t.Errorf("job %d has %s", j.ID, tb.ids(j.ID))
	}
}

func TestMarkedAdditionsWaitUntilTheyAreDue(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tx := tb.begin(repeatableRead)
	tb.run(tx, `SELECT notifyworker.enqueue_price_refresh('c', '["p1"]', delay => '1 hour')`)
	tb.commit(tx)
	r, err := tb.Reserve(t.Context(), 10)
	if err != nil || len(r.Jobs) != 0 {
		t.Fatalf("reserved %d jobs, %v", len(r.Jobs), err)
	}
	if r.NextDue < 50*time.Minute || r.NextDue > time.Hour {
		t.Errorf("a look says that the next job is due in %v", r.NextDue)
	}
	tb.due()
	tb.reserveOne()
}

func TestMarkedAdditionsOfATenantThatIsGoneStopNobody(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked) VALUES ($1, 'c', '["p1"]', true)`, otherTenant)
	tb.enqueueRR("c", `["p2"]`)
	if j := tb.reserveOne(); tb.ids(j.ID) != `["p2"]` {
		t.Errorf("got %s", tb.ids(j.ID))
	}
	if r, err := tb.Reserve(t.Context(), 10); err != nil || len(r.Jobs) != 0 || r.NextDue >= 0 {
		t.Errorf("got %+v, %v: nothing is left that could be reserved", r, err)
	}
}

// Ids that were refused a moment ago, and joined an empty successor, come back with their back-off.
func TestRefusedIDsInASuccessorKeepTheirBackOff(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.enqueue("c", `["p1"]`)
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
	j := tb.reserveOne() // and leaves a successor for the client
	tb.run(client, "ROLLBACK")
	out, err := tb.Requeue(t.Context(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Delay: time.Hour})
	if err != nil || out.Verdict != queue.Merged {
		t.Fatalf("got %+v, %v", out, err)
	}
	tb.exec(`UPDATE notifyworker.jobs SET run_after = now() WHERE status = 'PENDING'`)
	if jobs := tb.reserve(10); len(jobs) != 0 {
		t.Fatalf("their back-off is forgotten: %s", jobs[0].Config)
	}
	if !one[bool](tb, `SELECT run_after > now() + interval '50 minutes' FROM notifyworker.jobs WHERE status = 'PENDING'`) {
		t.Error("the successor will look for them again and again")
	}
	tb.due()
	if again := tb.reserveOne(); tb.ids(again.ID) != `["p1"]` || again.Attempt != 2 {
		t.Errorf("attempt %d, with %s", again.Attempt, tb.ids(again.ID))
	}
}

func TestALongListIsWaitedForWhole(t *testing.T) {
	tb := newTable(t, queue.Config{})
	const list = `(SELECT jsonb_agg(g) FROM generate_series($1::int, $2::int) g)`
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', `+list+`)`, 1, 25_000)
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', `+list+`)`, 20_001, 45_000)
	j := tb.reserveOne()
	if !one[bool](tb, `SELECT config -> 'productIds' = `+list+` FROM notifyworker.jobs WHERE id = $3`, 1, 45_000, j.ID) {
		t.Errorf("a job of %d ids, of 45,000 in order", j.ProductCount)
	}
}

// A sweep finds what somebody has locked the next time.
func TestASweepWaitsForNobody(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids) VALUES ($1, 'c', '["p1"]')`, queue.DefaultTenant)
	ended := one[int64](tb, `INSERT INTO notifyworker.jobs (type, status, finished_at) VALUES ('t', 'COMPLETED', now()) RETURNING id`)
	const note = `INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, from_job_id, job_id) VALUES ($1, '', '[]', $2, 7)`
	tb.exec(note, queue.DefaultTenant, ended)
	tb.exec(note, queue.DefaultTenant, 9999) // whose job was purged meanwhile
	psql := tb.begin(readCommitted)
	tb.run(psql, `SELECT FROM notifyworker.job_additions WHERE catalog_id = 'c' FOR UPDATE`)
	tb.run(psql, `SELECT FROM notifyworker.jobs FOR UPDATE`)
	impatient := tb.db.Conn(t)
	tb.run(impatient, `SET lock_timeout = '10s'`)
	tb.run(impatient, `SELECT notifyworker.sweep()`)
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions WHERE NOT marked`); n != 2 {
		t.Errorf("%d additions are left, and not marked; want that of the catalog and the note for the locked job", n)
	}
	tb.commit(psql)
	if r, err := tb.Sweep(t.Context()); err != nil || r.Repaired != 1 || tb.into(ended) != 7 {
		t.Errorf("repaired %+v, %v; job %d was merged into %d", r, err, ended, tb.into(ended))
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.job_additions`); n != 1 {
		t.Errorf("%d additions are left", n)
	}
}

func TestReplaySaysWhatItHasNotDone(t *testing.T) {
	tb := newTable(t, queue.Config{})
	const replay = `SELECT outcome FROM notifyworker.replay($1)`
	waits := tb.enqueue("c", `["p1"]`)
	if got := one[string](tb, replay, waits); got != "not_failed" {
		t.Errorf("of a job that waits: %s", got)
	}
	if got := one[string](tb, replay, waits+1); got != "not_found" {
		t.Errorf("of a job that never was: %s", got)
	}
	tb.requeue(tb.reserveOne(), queue.CausePermanent)
	psql := tb.begin(readCommitted)
	tb.run(psql, `SELECT FROM notifyworker.jobs FOR UPDATE`)
	if got := one[string](tb, replay, waits); got != "busy" {
		t.Errorf("of a locked one: %s", got)
	}
	tb.commit(psql)
	if got := one[string](tb, replay, waits); got != "requeued" {
		t.Errorf("of a dead letter: %s", got)
	}
}

func TestAFullRefreshThatJoinsMakesTheWaitingJobFull(t *testing.T) {
	tb := newTable(t, queue.Config{})
	waits := tb.enqueue("c", `["p1"]`)
	if !one[bool](tb, `SELECT joined FROM notifyworker.enqueue_full_refresh('c')`) {
		t.Error("it has not joined")
	}
	if j := tb.reserveOne(); j.ID != waits || !one[bool](tb, `SELECT config @> '{"full": true}' FROM notifyworker.jobs WHERE id = $1`, j.ID) {
		t.Errorf("job %d has %s", j.ID, j.Config)
	}
}

func TestASuccessorThatNobodyFillsGoes(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.enqueue("c", `["p1"]`)
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
	tb.reserveOne()
	const waiting = `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`
	if n := one[int](tb, waiting); n != 1 {
		t.Fatalf("%d successors are left for the client", n)
	}
	tb.run(client, "ROLLBACK")
	tb.due()
	if jobs := tb.reserve(10); len(jobs) != 0 {
		t.Errorf("a job of nothing was reserved: %s", jobs[0].Config)
	}
	if n := one[int](tb, waiting); n != 0 {
		t.Errorf("%d empty jobs wait for ever", n)
	}
}

// At a higher isolation level a replay takes none of the catalog's locks, which would be held until its end for nothing.
func TestAReplayWithAnOldSnapshotIsAMarkedAddition(t *testing.T) {
	tb := newTable(t, queue.Config{})
	dead := tb.enqueue("c", `["p1"]`)
	tb.requeue(tb.reserveOne(), queue.CausePermanent)
	tx := tb.begin(repeatableRead)
	var outcome string
	if err := tx.QueryRow(t.Context(), `SELECT outcome FROM notifyworker.replay($1)`, dead).Scan(&outcome); err != nil || outcome != "merged" {
		t.Errorf("got %s, %v", outcome, err)
	}
	if n := one[int](tb, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Errorf("it holds %d advisory locks", n)
	}
	tb.commit(tx)
	if j := tb.reserveOne(); tb.ids(j.ID) != `["p1"]` {
		t.Errorf("got %s", tb.ids(j.ID))
	}
}
