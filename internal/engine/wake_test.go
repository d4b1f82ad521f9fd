package engine_test

import (
	"context"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/queue"
)

func TestAReleaseWakesTheJobThatWaits(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: g.pass})
	_, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	b.exec(`SELECT notifyworker.enqueue_price_refresh('delayed', '["p1"]', delay => '1 hour')`)
	j := b.job("c", `["p1", "p2"]`)
	out := e.Handle(ctx, j)
	_, err = b.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: out.Err.Error(), Note: out.Result, Delay: time.Hour})
	must(t, err)
	listener := b.db.Conn(t)
	_, err = listener.Exec(ctx, `LISTEN notifyworker; INSERT INTO notifyworker.workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 1, 'v', 1, true)`)
	must(t, err)
	close(g.open)
	wait, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	note, err := listener.WaitForNotification(wait)
	must(t, err)
	t.Logf("notified: %s", note.Payload)
	if next := b.reserve(); next.ID != j.ID || next.ProductCount != 2 {
		t.Errorf("reserved job %d with %d products, want %d", next.ID, next.ProductCount, j.ID)
	}
	if b.status(value[int64](b, `SELECT id FROM notifyworker.jobs WHERE catalog_id = 'delayed'`)) != "PENDING" {
		t.Error("a job that its client delayed was woken")
	}
}

// The release comes while the refused job is on its way back to PENDING: nothing waits yet that it could wake.
func TestARequeueAfterTheReleaseIsWokenToo(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: g.pass})
	id, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	j := b.job("c", `["p1"]`)
	out := e.Handle(ctx, j)
	if out.Kind != queue.Refused {
		t.Fatalf("got %v", out.Kind)
	}
	close(g.open)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE id = $1`, id)
	_, err = b.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: out.Err.Error(), Note: out.Result, Delay: time.Hour})
	must(t, err)
	b.eventually(`SELECT run_after <= clock_timestamp() FROM notifyworker.jobs WHERE id = $1`, j.ID)
}

// A job waits for the refresh that is in its way; the release of another one would only cost it an attempt.
func TestAReleaseLeavesAJobAloneThatWaitsForAnother(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: func(ctx context.Context, c engine.Chunk) error {
		if string(c.ProductIDs[0]) == `"p1"` {
			return g.pass(ctx, c)
		}
		return nil
	}})
	long, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	j := b.job("c", `["p1"]`)
	out := e.Handle(ctx, j)
	_, err = b.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: out.Err.Error(), Note: out.Result, Delay: time.Hour})
	must(t, err)
	b.exec(`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, article_ids, lock_token, lease_expires_at)
		VALUES (0, '00000000-0000-0000-0000-000000000000', 'c', 'PARTIAL', '["p7"]', true, '{p7}', $1, now() + '1 h')`, workerB)
	if !value[bool](b, `SELECT (notifyworker.release_refresh(id, lock_token)).outcome = 'done' FROM notifyworker.refreshes WHERE lock_token = $1`, workerB) {
		t.Fatal("not released")
	}
	if value[bool](b, `SELECT run_after <= now() FROM notifyworker.jobs WHERE id = $1`, j.ID) {
		t.Error("the other's release woke it")
	}
	close(g.open)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE id = $1`, long)
	if !value[bool](b, `SELECT run_after <= now() FROM notifyworker.jobs WHERE id = $1`, j.ID) {
		t.Error("the release that it waited for did not wake it")
	}
}

// Nobody has refused it yet: it waits because its client wants it to.
func TestAReleaseLeavesAJobAloneThatItsClientDelayed(t *testing.T) {
	b := newBench(t)
	b.exec(`SELECT notifyworker.enqueue_price_refresh('c', '["p1"]', delay => '1 hour')`)
	if value[bool](b, `SELECT notifyworker.wake_catalog('00000000-0000-0000-0000-000000000000', 'c')`) {
		t.Error("it says that something was woken")
	}
	if !value[bool](b, `SELECT run_after > now() + interval '30 minutes' FROM notifyworker.jobs`) {
		t.Error("the job is due")
	}
}

// Refused ids that a requeue merged into a successor carry their back-off as additions.
func TestAReleaseWakesASuccessor(t *testing.T) {
	b := newBench(t)
	b.exec(`INSERT INTO notifyworker.jobs (type, config, successor, run_after) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": []}', true, now() + '1 h');
		INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, from_job_id, attempts, run_after)
		VALUES ('00000000-0000-0000-0000-000000000000', 'c', '["p1"]', 1, 3, now() + '1 h')`)
	if !value[bool](b, `SELECT notifyworker.wake_catalog('00000000-0000-0000-0000-000000000000', 'c')`) {
		t.Fatal("nothing was woken")
	}
	if j := b.reserve(); j.ProductCount != 1 {
		t.Errorf("reserved %+v", j)
	}
}
