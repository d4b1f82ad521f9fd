package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/engine"
)

// frozen has no heartbeat while the test looks: who expires its leases has it die.
func frozen(c *engine.Config) { c.Lease = time.Hour }

func TestWhatKillsItsWorkersIsGivenUp(t *testing.T) {
	b := newBench(t)
	b.admitted("c", `["p1", "p2"]`)
	g := newGate()
	defer close(g.open)
	for range 5 {
		expire(b)
		b.start(&fake{do: g.pass}, frozen)
		g.wait(t) // it runs there, and that is the end of that one
	}
	expire(b)
	last := &fake{}
	b.start(last)
	b.eventually(`SELECT status <> 'ACTIVE' FROM notifyworker.refreshes`)
	if got := value[string](b, `SELECT status || coalesce(': ' || error, '') FROM notifyworker.refreshes`); !strings.HasPrefix(got, "DONE_WITH_ERRORS: it was taken over 6 times") {
		t.Fatalf("it is %s", got)
	}
	if !value[bool](b, `SELECT config = '{"catalogId": "c", "productIds": ["p1", "p2"]}' FROM notifyworker.jobs WHERE status = 'FAILED'`) || len(last.called()) != 0 {
		t.Error("no dead letter with all ids")
	}
}

// Another refresh may be what its workers die of. This one has not even begun.
func TestWhatWaitsForItsTurnIsNotGivenUpForTheDeathsOfItsWorkers(t *testing.T) {
	b := newBench(t)
	b.admitted("c", `["p1", "p2"]`)
	for range 10 {
		expire(b)
		if n := value[int](b, `SELECT count(*) FROM notifyworker.take_over_refreshes($1, 3600000, 1)`, workerB); n != 1 {
			t.Fatalf("%d taken over", n)
		}
	}
	expire(b)
	b.start(&fake{})
	b.eventually(`SELECT status <> 'ACTIVE' FROM notifyworker.refreshes`)
	if got := value[string](b, `SELECT status || coalesce(': ' || error, '') FROM notifyworker.refreshes`); got != "DONE" {
		t.Errorf("it is %s", got)
	}
}

// Shutdowns are no deaths, however many of them a long chunk meets.
func TestARunThatIsHandedBackCountsForNothing(t *testing.T) {
	b := newBench(t)
	b.admitted("c", `["p1"]`)
	g := newGate()
	defer close(g.open)
	expire(b)
	b.start(&fake{do: g.pass}, frozen)
	g.wait(t) // a run that ends with its worker counts
	expire(b)
	counted := func(want int, when string) {
		t.Helper()
		if n := value[int](b, `SELECT attempts FROM notifyworker.refreshes`); n != want {
			t.Errorf("%s: %d runs counted, want %d", when, n, want)
		}
	}
	for range 3 {
		e := b.start(&fake{do: g.pass}, frozen, func(c *engine.Config) { c.DrainTimeout = time.Millisecond })
		g.wait(t)
		counted(2, "under way")
		must(t, e.stop())
		counted(1, "handed back")
	}
	b.exec(`SELECT notifyworker.hand_back_refreshes(ARRAY[id], ARRAY[lock_token]) FROM notifyworker.take_over_refreshes($1, 60000, 1)`, workerB)
	counted(1, "handed back before its turn")
}

// busy starts an engine that runs one refresh at a time, and is at it: what is submitted to it from then on waits. It drains at once.
func (b bench) busy(g *gate) running {
	b.t.Helper()
	e := b.start(&fake{do: g.pass}, frozen, func(c *engine.Config) { c.Refreshes, c.DrainTimeout = 1, time.Millisecond })
	_, err := e.Submit(context.Background(), b.job("running", `["p1"]`))
	must(b.t, err)
	g.wait(b.t)
	return e
}

// A person who looks into one refresh's row FOR UPDATE keeps that one from being handed back, and no other.
func TestALockedRowKeepsNoOtherRefreshFromBeingHandedBack(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	defer close(g.open)
	e := b.busy(g)
	var queued []int64
	for _, c := range []string{"c", "d", "e"} {
		id, err := e.Submit(ctx, b.job(c, `["p1"]`))
		must(t, err)
		queued = append(queued, id)
	}
	psql := b.begin(`SELECT FROM notifyworker.refreshes WHERE id = $1 FOR UPDATE`, queued[0])
	must(t, e.stop())
	if !value[bool](b, `SELECT bool_and(worker_id IS NULL AND lease_expires_at <= clock_timestamp()) FROM notifyworker.refreshes WHERE id = ANY ($1)`, queued[1:]) {
		t.Error("others were not handed back")
	}
	if s := e.Stats(); s.HandedBack != 3 {
		t.Errorf("stats %+v", s)
	}
	must(t, psql.Rollback(ctx))
}

// It may be an admission that is just being refused because of it: that takes a moment.
func TestARowThatIsLockedForAMomentIsHandedBackToo(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	defer close(g.open)
	e := b.busy(g)
	locked, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	other, err := e.Submit(ctx, b.job("d", `["p1"]`))
	must(t, err)
	psql := b.begin(`SELECT FROM notifyworker.refreshes WHERE id = $1 FOR UPDATE`, locked)
	stopped := make(chan error, 1)
	go func() { stopped <- e.stop() }()
	b.eventually(`SELECT worker_id IS NULL FROM notifyworker.refreshes WHERE id = $1`, other)
	must(t, psql.Rollback(ctx))
	must(t, <-stopped)
	if !value[bool](b, `SELECT bool_and(worker_id IS NULL AND status = 'ACTIVE') FROM notifyworker.refreshes`) {
		t.Error("what was locked for a moment was not handed back")
	}
}

// Where a search for all ended leases is slow, those that ended of late are found without, and the others by one now and then.
func TestWhatEndedLongAgoIsTakenOverByASearchOfItsOwn(t *testing.T) {
	b := newBench(t)
	e := b.start(&fake{})
	b.admitted("late", `["p1"]`)
	b.admitted("old", `["p1"]`)
	b.exec(`UPDATE notifyworker.refreshes SET lease_expires_at = clock_timestamp() - CASE catalog_id WHEN 'old' THEN interval '1 hour' ELSE interval '20 s' END`)
	const oldIsLeft = `SELECT array_agg(catalog_id) = '{old}' FROM notifyworker.refreshes WHERE lease_expires_at < clock_timestamp() - interval '10 s'`
	e.SearchesAreSlow(time.Hour)
	n, err := e.TakeOver(t.Context())
	if must(t, err); n != 1 || !value[bool](b, oldIsLeft) {
		t.Errorf("%d taken over, want the one that ended of late", n)
	}
	n, err = e.TakeOverAll(t.Context())
	if must(t, err); n != 0 {
		t.Errorf("%d taken over by a search before its time", n)
	}
	e.SearchesAreSlow(100 * time.Millisecond) // the next one is due after 2 s
	waitFor(t, func() bool {
		n, err := e.TakeOverAll(t.Context())
		must(t, err)
		return n == 1
	})
	b.eventually(`SELECT NOT EXISTS (SELECT FROM notifyworker.refreshes WHERE status = 'ACTIVE')`)
}

// A takeover may take seconds. Meanwhile the leases of what runs are extended.
func TestATakeoverThatTakesLongCostsNoLease(t *testing.T) {
	b := newBench(t)
	stays, ends := newGate(), newGate()
	cause := make(chan error, 1)
	e := b.start(&fake{do: func(ctx context.Context, c engine.Chunk) error {
		if c.CatalogID != "stays" {
			return ends.pass(ctx, c)
		}
		err := stays.pass(ctx, c)
		cause <- err
		return err
	}}, func(c *engine.Config) { c.Refreshes, c.Queue, c.Lease = 2, 1, short })
	for _, catalog := range []string{"stays", "ends", "ends too"} {
		_, err := e.Submit(t.Context(), b.job(catalog, `["p1"]`))
		must(t, err)
	}
	stays.wait(t)
	ends.wait(t)
	b.admitted("lying", `["p1"]`)
	b.exec(`CREATE SEQUENCE times`)
	b.exec(`CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('public.times') = 1 THEN PERFORM pg_sleep(5); END IF; RETURN NEW; END $$`)
	b.exec(`CREATE TRIGGER slowly BEFORE UPDATE OF worker_id ON notifyworker.refreshes FOR EACH ROW WHEN (OLD.catalog_id = 'lying') EXECUTE FUNCTION slowly()`)
	b.exec(`UPDATE notifyworker.refreshes SET lease_expires_at = clock_timestamp() WHERE catalog_id = 'lying'`)
	n, err := e.TakeOver(t.Context())
	if must(t, err); n != 0 {
		t.Fatalf("%d taken over without a place", n)
	}
	close(ends.open) // a place, and a heartbeat sees it
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE catalog_id = 'lying'`)
	close(stays.open)
	if err := <-cause; err != nil {
		t.Errorf("a takeover of %v cost a lease of %v: %v", 5*time.Second, short, err)
	}
}
