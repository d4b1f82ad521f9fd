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
