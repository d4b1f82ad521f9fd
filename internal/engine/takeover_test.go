package engine_test

import (
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
