package integration

import (
	"testing"
	"time"

	"notifyworker/integration/schedule"
	"notifyworker/internal/queue"
)

// act is what one session of a script does; iso is for clients.
type act struct {
	name string
	iso  bool // it is a client's: it may run at any isolation level
	make func(w *world, name, iso string) schedule.Session
}

func clientAct(name string, f func(c *client) schedule.Session) act {
	return act{name, true, func(w *world, who, iso string) schedule.Session { return f(newClient(w, who, iso)) }}
}

func workerAct(name string, f func(k *worker) *worker) act {
	return act{name, false, func(w *world, who, _ string) schedule.Session { return f(newWorker(w, who)).session() }}
}

// acts are all that can be done to a catalog.
var acts = []act{
	clientAct("enqueue", func(c *client) schedule.Session { return c.enqueue("c", c.name).end(true) }),
	clientAct("enqueue many", func(c *client) schedule.Session { return c.enqueueMany(c.name).end(true) }),
	clientAct("enqueue twice", func(c *client) schedule.Session { return c.enqueue("c", c.name).enqueue("c", c.name+"'").end(true) }),
	clientAct("enqueue rolled back", func(c *client) schedule.Session { return c.enqueue("c", c.name).end(false) }),
	clientAct("raw INSERT", func(c *client) schedule.Session { return c.rawInsert(c.name).end(true, "40001") }),
	clientAct("raw INSERT rolled back", func(c *client) schedule.Session { return c.rawInsert(c.name).end(false) }),
	clientAct("raw UPDATE to PENDING", func(c *client) schedule.Session { return c.rawPending().end(true, "40001") }),
	clientAct("replay", func(c *client) schedule.Session { return c.call("replay", &c.w.failed, schedule.ForWorkers).end(true) }),
	clientAct("cancel what waits", func(c *client) schedule.Session {
		return c.call("cancel", &c.w.waiting, schedule.ForAnybody).end(true)
	}),
	clientAct("cancel what runs", func(c *client) schedule.Session {
		return c.call("cancel", &c.w.running, schedule.ForAnybody).end(true)
	}),
	clientAct("cancel rolled back", func(c *client) schedule.Session {
		return c.call("cancel", &c.w.waiting, schedule.ForAnybody).end(false)
	}),
	clientAct("make due", func(c *client) schedule.Session { return c.release().end(true, "40001") }),
	clientAct("DELETE by hand", func(c *client) schedule.Session { return c.deleteWaiting().end(true) }),
	workerAct("reserve one", func(k *worker) *worker { return k.reserve(1) }),
	workerAct("reserve many", func(k *worker) *worker { return k.reserve(10) }),
	workerAct("reserve and die", func(k *worker) *worker { return k.reserveAndDie(10) }),
	workerAct("complete", func(k *worker) *worker { return k.completeRunning() }),
	workerAct("refuse", func(k *worker) *worker { return k.back(queue.CauseRefused, 0) }),
	workerAct("fail", func(k *worker) *worker { return k.back(queue.CauseFailed, time.Hour) }),
	workerAct("fail for good", func(k *worker) *worker { return k.back(queue.CausePermanent, 0) }),
	workerAct("release", func(k *worker) *worker { return k.back(queue.CauseReleased, 0) }),
	workerAct("rescue", func(k *worker) *worker { return k.rescue() }),
	workerAct("sweep", func(k *worker) *worker { return k.sweep() }),
	workerAct("purge", func(k *worker) *worker { return k.purge() }),
}

func TestEveryPairInEveryOrder(t *testing.T) {
	for _, sc := range []scene{nothingWaits, aJobWaits, aSuccessorWaits, anAdditionWaits, aDelayedJob} {
		t.Run(string(sc), func(t *testing.T) {
			t.Parallel()
			th := newTheatre(t, 2)
			for i, a := range acts {
				for _, b := range acts[i:] {
					th.everyOrder(t, a.name+" and "+b.name, sc, func(w *world) []schedule.Session {
						return []schedule.Session{a.make(w, "A", readCommitted), b.make(w, "B", readCommitted)}
					})
				}
			}
			t.Logf("%d schedules", th.played)
		})
	}
}
