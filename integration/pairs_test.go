package integration

import (
	"testing"
	"time"

	"notifyworker/integration/schedule"
	"notifyworker/internal/queue"
)

// act is what one session of a script does.
type act struct {
	name   string
	client bool // it may run at any isolation level
	lesser bool // tried in the two plain scenes only, to keep the number of schedules down
	make   func(w *world, name, iso string) schedule.Session
}

func clientAct(name string, f func(c *client) schedule.Session) act {
	return act{name: name, client: true, make: func(w *world, who, iso string) schedule.Session { return f(newClient(w, who, iso)) }}
}

func workerAct(name string, f func(k *worker) *worker) act {
	return act{name: name, make: func(w *world, who, _ string) schedule.Session { return f(newWorker(w, who)).session() }}
}

func lesser(a act) act {
	a.lesser = true
	return a
}

// acts are all that can be done to a catalog.
var acts = []act{
	clientAct("enqueue", func(c *client) schedule.Session { return c.enqueue("c", c.name).end(true) }),
	lesser(clientAct("enqueue many", func(c *client) schedule.Session { return c.enqueueMany(c.name).end(true) })),
	lesser(clientAct("enqueue twice", func(c *client) schedule.Session { return c.enqueue("c", c.name).enqueue("c", c.name+"'").end(true) })),
	clientAct("enqueue rolled back", func(c *client) schedule.Session { return c.enqueue("c", c.name).end(false) }),
	clientAct("raw INSERT", func(c *client) schedule.Session { return c.rawInsert(c.name).end(true, "40001") }),
	lesser(clientAct("raw INSERT rolled back", func(c *client) schedule.Session { return c.rawInsert(c.name).end(false) })),
	clientAct("raw UPDATE to PENDING", func(c *client) schedule.Session { return c.rawPending().hold().end(true, "40001") }),
	clientAct("replay", func(c *client) schedule.Session {
		return c.call("replay", &c.w.failed, schedule.ForWorkers).end(true, "40001")
	}),
	clientAct("cancel what waits", func(c *client) schedule.Session {
		return c.call("cancel", &c.w.waiting, schedule.ForAnybody).hold().end(true, "40001")
	}),
	lesser(clientAct("cancel what runs", func(c *client) schedule.Session {
		return c.call("cancel", &c.w.running, schedule.ForAnybody).hold().end(true, "40001")
	})),
	clientAct("cancel rolled back", func(c *client) schedule.Session {
		return c.call("cancel", &c.w.waiting, schedule.ForAnybody).hold().end(false)
	}),
	clientAct("make due", func(c *client) schedule.Session { return c.release().hold().end(true, "40001") }),
	clientAct("DELETE by hand", func(c *client) schedule.Session { return c.deleteWaiting().hold().end(true, "40001") }),
	workerAct("reserve one", func(k *worker) *worker { return k.reserve(1) }),
	workerAct("reserve many", func(k *worker) *worker { return k.reserve(10) }),
	workerAct("reserve and die", func(k *worker) *worker { return k.reserveAndDie(10) }),
	lesser(workerAct("complete", func(k *worker) *worker { return k.completeRunning() })),
	workerAct("refuse", func(k *worker) *worker { return k.back(queue.CauseRefused, 0) }),
	workerAct("fail", func(k *worker) *worker { return k.back(queue.CauseFailed, time.Hour) }),
	lesser(workerAct("fail for good", func(k *worker) *worker { return k.back(queue.CausePermanent, 0) })),
	lesser(workerAct("release", func(k *worker) *worker { return k.back(queue.CauseReleased, 0) })),
	workerAct("rescue", func(k *worker) *worker { return k.rescue() }),
	lesser(workerAct("sweep", func(k *worker) *worker { return k.sweep() })),
	lesser(workerAct("purge", func(k *worker) *worker { return k.purge() })),
}

func TestEveryPairInEveryOrder(t *testing.T) {
	for _, sc := range []scene{nothingWaits, aJobWaits, aSuccessorWaits, anAdditionWaits, aDelayedJob} {
		t.Run(string(sc), func(t *testing.T) {
			t.Parallel()
			th := newTheatre(t, 2)
			plain := sc == nothingWaits || sc == aJobWaits
			if testing.Short() && !plain {
				return
			}
			for i, a := range acts {
				for _, b := range acts[i:] {
					if plain || !a.lesser && !b.lesser {
						th.pair(t, sc, a, b, readCommitted, readCommitted)
					}
				}
			}
			t.Logf("%d schedules", th.played)
		})
	}
}

// A client at a higher level meets each other act, the other at the same level or, workers, at their own. Its snapshot is
// taken in a step of its own.
func TestEveryPairAtHigherIsolationLevels(t *testing.T) {
	for _, c := range []struct {
		iso string
		sc  scene
	}{
		{repeatableRead, aJobWaits},
		{repeatableRead, nothingWaits},
		{repeatableRead, anAdditionWaits},
		{serializable, aJobWaits},
	} {
		if testing.Short() && (c.iso == serializable || c.sc != aJobWaits) {
			continue
		}
		t.Run(c.iso+", "+string(c.sc), func(t *testing.T) {
			t.Parallel()
			th := newTheatre(t, 2)
			for i, a := range acts {
				for _, b := range acts[i:] {
					if a.client && !a.lesser && !b.lesser {
						th.pair(t, c.sc, a, b, c.iso, c.iso)
					}
				}
			}
			t.Logf("%d schedules", th.played)
		})
	}
}

func (th *theatre) pair(t *testing.T, sc scene, a, b act, isoA, isoB string) {
	t.Helper()
	th.everyOrder(t, a.name+" and "+b.name, sc, func(w *world) []schedule.Session {
		return []schedule.Session{a.make(w, "A", isoA), b.make(w, "B", isoB)}
	})
}
