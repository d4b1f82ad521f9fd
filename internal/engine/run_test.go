package engine_test

import (
	"context"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/queue"
)

func expire(b bench) {
	b.t.Helper()
	b.exec(`UPDATE notifyworker.refreshes SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE status = 'ACTIVE'`)
}

func TestARefreshIsTakenOverWhenItsLeaseEnds(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	chunks := func(c *engine.Config) { c.Chunk, c.Refreshes = 2, 1 }
	g := newGate()
	dying := &fake{do: func(ctx context.Context, c engine.Chunk) error {
		if c.Number == 0 {
			return nil
		}
		return g.pass(ctx, c)
	}}
	slow := func(c *engine.Config) { c.Lease = time.Hour } // no heartbeat comes while the test looks
	a := b.start(dying, chunks, slow)
	id, err := a.Submit(ctx, b.job("c", `["p1", "p2", "p3", "p4", "p5"]`))
	must(t, err)
	g.wait(t) // the second chunk is under way, the first is written
	expire(b)

	next := &fake{}
	other := b.start(next, chunks, func(c *engine.Config) { c.WorkerID = workerB })
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE id = $1`, id)
	if got := next.called(); len(got) != 2 || string(got[0].ProductIDs[0]) != `"p3"` || got[0].Number != 1 || got[0].Offset != 2 || got[0].TraceID != "trace-c" {
		t.Errorf("the other engine recomputed %+v", got)
	}
	waitFor(t, func() bool { return other.Stats().Released == 1 }) // counted once the release is committed
	if s := other.Stats(); s.TakenOver != 1 {
		t.Errorf("stats of the other %+v", s)
	}
	close(g.open) // the first one wakes up, and may write nothing
	waitFor(t, func() bool { return a.Stats().Lost == 1 })
	if n := value[int](b, `SELECT recomputed FROM notifyworker.refreshes WHERE id = $1`, id); n != 5 {
		t.Errorf("%d recomputed, want 5", n)
	}
}

// waitFor waits for a condition that only the engine knows of.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not become true")
		}
	}
}

// What a SQL function of the same database has written under a lost token is rolled back with the progress.
func TestALostChunkIsRolledBack(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	shop := b.withShop()
	fn, err := engine.NewSQLFunction(engine.SQLFunctionConfig{Name: "recompute", Pool: shop, SameDatabase: true})
	must(t, err)
	psql := b.db.Conn(t)
	_, err = psql.Exec(ctx, `INSERT INTO shop.prices VALUES ('c', 'p1', 'string', 100)`)
	must(t, err)
	_, err = psql.Exec(ctx, `BEGIN; SELECT FROM shop.prices WHERE product = 'p1' FOR UPDATE`)
	must(t, err)
	e := b.start(fn, func(c *engine.Config) { c.Lease = time.Hour })
	id, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	b.eventually(`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
	expire(b)
	taken := value[string](b, `SELECT lock_token::text FROM notifyworker.take_over_refreshes($1, 60000, 1)`, workerB)
	_, err = psql.Exec(ctx, `COMMIT`)
	must(t, err)
	waitFor(t, func() bool { return e.Stats().Lost == 1 })
	if n := value[int](b, `SELECT runs FROM shop.prices`); n != 100 {
		t.Errorf("the lost chunk's price was written: %d runs", n)
	}
	if !value[bool](b, `SELECT status = 'ACTIVE' AND lock_token = $2::uuid AND worker_id = $3 FROM notifyworker.refreshes WHERE id = $1`, id, taken, workerB) {
		t.Error("the refresh is not the other's any more")
	}
}

// While the waiting job is being reserved its row can't be had, and its additions are the reservation's. Nor is a row waited
// for that somebody has locked who isn't in a hurry.
func TestAReleaseTouchesNoAdditionsOfAJobThatIsBeingReserved(t *testing.T) {
	for _, delay := range []string{"0", "1 h"} {
		b := newBench(t)
		b.exec(`INSERT INTO notifyworker.jobs (type, config, attempts, run_after)
			VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": ["p0"]}', 1, now() + $1::text::interval)`, delay)
		b.refusedIDs("c", false)
		reserving := b.begin(`SELECT FROM notifyworker.jobs FOR UPDATE`)
		if got := said(b.impatient(), `SELECT notifyworker.wake_catalog('00000000-0000-0000-0000-000000000000', 'c')::text`); got != "false" {
			t.Errorf("of a job that is due in %s, an addition was woken under a reservation: %s", delay, got)
		}
		must(t, reserving.Rollback(context.Background()))
	}
}

func TestAShutdownHandsBackAndAnotherGoesOnAtOnce(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	small := func(c *engine.Config) { c.Chunk, c.Refreshes, c.Lease = 1, 1, time.Hour }
	a := b.start(&fake{do: g.pass}, small)
	running, err := a.Submit(ctx, b.job("c", `["p1", "p2"]`))
	must(t, err)
	queued, err := a.Submit(ctx, b.job("d", `["p1"]`))
	must(t, err)
	g.wait(t)
	listener := b.db.Conn(t)
	_, err = listener.Exec(ctx, `LISTEN notifyworker`)
	must(t, err)
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	// What has not begun is handed back first, and the workers are told.
	wait, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	note, err := listener.WaitForNotification(wait)
	must(t, err)
	if note.Payload != "{}" {
		t.Errorf("notified: %s", note.Payload)
	}
	b.eventually(`SELECT worker_id IS NULL AND lease_expires_at <= now() FROM notifyworker.refreshes WHERE id = $1`, queued)
	close(g.open) // the chunk under way ends within the drain time, and is written
	must(t, <-stopped)
	if !value[bool](b, `SELECT worker_id IS NULL AND lease_expires_at <= now() AND done_count = 1 FROM notifyworker.refreshes WHERE id = $1`, running) {
		t.Error("the running refresh was not handed back after its chunk")
	}
	next := &fake{}
	b.start(next, small)
	b.eventually(`SELECT bool_and(status = 'DONE') FROM notifyworker.refreshes`)
	if n := len(next.called()); n != 2 {
		t.Errorf("%d calls, want 2: the rest", n)
	}
	if s := a.Stats(); s.HandedBack != 2 || s.Places != 0 || s.Lost != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestADrainThatTakesTooLongIsCutOff(t *testing.T) {
	b := newBench(t)
	g := newGate()
	e := b.start(&fake{do: g.pass}, func(c *engine.Config) { c.DrainTimeout = 20 * time.Millisecond })
	_, err := e.Submit(context.Background(), b.job("c", `["p1"]`))
	must(t, err)
	g.wait(t)
	must(t, e.stop())
	if !value[bool](b, `SELECT worker_id IS NULL AND status = 'ACTIVE' AND done_count = 0 FROM notifyworker.refreshes`) {
		t.Error("not handed back")
	}
}

func TestAFullEngineTakesOverWhenThereIsRoom(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: func(ctx context.Context, c engine.Chunk) error {
		if c.CatalogID == "c" {
			return g.pass(ctx, c)
		}
		return nil
	}}, func(c *engine.Config) { c.Refreshes, c.Queue, c.Lease = 1, 1, short })
	for _, id := range []string{"p1", "p2"} {
		_, err := e.Submit(ctx, b.job("c", `["`+id+`"]`))
		must(t, err)
	}
	b.exec(`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, article_ids, lock_token, lease_expires_at, worker_id)
		SELECT 0, '00000000-0000-0000-0000-000000000000', 'd', 'PARTIAL', jsonb_build_array(n), true, ARRAY[n::text], gen_random_uuid(), now() - interval '1 s', $1
		  FROM generate_series(1, 40) n`, workerB)
	if n, err := e.TakeOver(ctx); n != 0 || err != nil {
		t.Errorf("a full engine took over %d: %v", n, err)
	}
	close(g.open)
	b.eventually(`SELECT bool_and(status = 'DONE') FROM notifyworker.refreshes`)
}

// The answer to a submission may get lost after its commit: the refresh then waits for the end of its lease.
func TestAnAcceptedRefreshNobodyHeardOf(t *testing.T) {
	b := newBench(t)
	j := b.job("c", `["p1"]`)
	if !value[bool](b, `SELECT outcome = 'accepted' FROM notifyworker.admit_refresh($1, $2, $3, 1)`, j.ID, j.Token, workerB) {
		t.Fatal("not admitted")
	}
	r, err := b.Reserve(context.Background(), 1)
	must(t, err)
	if r.NextLease > time.Second {
		t.Errorf("the queue does not know of the lease: %v", r.NextLease)
	}
	e := b.start(&fake{})
	if out := e.Handle(context.Background(), j); out.Kind != queue.Lost {
		t.Errorf("submitted twice: %v", out.Kind)
	}
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes`)
}

func TestTheDatabaseGoesAway(t *testing.T) {
	b := newBench(t)
	g := newGate()
	e := b.start(&fake{do: func(ctx context.Context, c engine.Chunk) error {
		if c.Number == 1 {
			return g.pass(ctx, c)
		}
		return nil
	}}, func(c *engine.Config) { c.Chunk = 1 })
	_, err := e.Submit(context.Background(), b.job("c", `["p1", "p2", "p3"]`))
	must(t, err)
	g.wait(t)
	killer := b.db.Conn(t) // none of the pool's, which may end before the next statement
	for range 3 {
		_, err := killer.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`)
		must(t, err)
	}
	close(g.open)
	b.pool = b.db.Pool(t) // the other one still has connections that are gone
	b.eventually(`SELECT status = 'DONE' AND recomputed = 3 FROM notifyworker.refreshes`)
}
