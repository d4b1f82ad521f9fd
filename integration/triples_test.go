package integration

import (
	"testing"
	"time"

	"notifyworker/integration/schedule"
	"notifyworker/internal/queue"
)

// more is what the triples need beyond the acts of the pairs.
var more = struct{ reserveComplete, reserveRefuse, refuse, rescue, reserve, enqueue, enqueueMany, rolledBack, raw, rawPending, rawRolledBack, replay act }{
	reserveComplete: workerAct("reserve and complete", func(k *worker) *worker { return k.reserve(10).complete() }),
	reserveRefuse:   workerAct("reserve and refuse", func(k *worker) *worker { return k.reserve(10).backAll() }),
	refuse:          workerAct("refuse", func(k *worker) *worker { return k.back(queue.CauseRefused, time.Second) }),
	rescue:          workerAct("rescue", func(k *worker) *worker { return k.rescue() }),
	reserve:         workerAct("reserve", func(k *worker) *worker { return k.reserve(10) }),
	enqueue:         clientAct("enqueue", func(c *client) schedule.Session { return c.enqueue("c", c.name).end(true) }),
	enqueueMany:     clientAct("enqueue many", func(c *client) schedule.Session { return c.enqueueMany(c.name).end(true) }),
	rolledBack:      clientAct("enqueue rolled back", func(c *client) schedule.Session { return c.enqueue("c", c.name).end(false) }),
	raw:             clientAct("raw INSERT", func(c *client) schedule.Session { return c.rawInsert(c.name).end(true, "40001") }),
	rawPending:      clientAct("raw UPDATE to PENDING", func(c *client) schedule.Session { return c.rawPending().end(true, "40001") }),
	replay:          clientAct("replay", func(c *client) schedule.Session { return c.call("replay", &c.w.failed, schedule.ForWorkers).end(true) }),
	rawRolledBack:   clientAct("raw INSERT rolled back", func(c *client) schedule.Session { return c.rawInsert(c.name).end(false) }),
}

// The triples that the protocol argues about.
func TestTriplesInEveryOrder(t *testing.T) {
	const rc, rr = readCommitted, repeatableRead
	for _, c := range []struct {
		name string
		sc   scene
		acts []act
		iso  []string
	}{
		{"two first enqueues and a reservation", nothingWaits, []act{more.enqueue, more.enqueue, more.reserveComplete}, []string{rc, rc, rc}},
		{"two enqueuers and a reservation", aJobWaits, []act{more.enqueue, more.enqueue, more.reserveComplete}, []string{rc, rc, rc}},
		{"two enqueuers and a successor that comes due", aSuccessorWaits, []act{more.enqueue, more.rolledBack, more.reserve}, []string{rc, rc, rc}},
		{"an enqueuer, a reservation and a requeue", nothingWaits, []act{more.enqueue, more.reserve, more.refuse}, []string{rc, rc, rc}},
		{"an enqueuer, a reservation and a requeue", aJobWaits, []act{more.enqueue, more.reserveRefuse, more.refuse}, []string{rc, rc, rc}},
		{"an enqueuer at REPEATABLE READ, a reservation and a requeue", aJobWaits, []act{more.enqueue, more.reserve, more.refuse}, []string{rr, rc, rc}},
		{"an enqueuer at REPEATABLE READ, a first one and a reservation", nothingWaits, []act{more.enqueue, more.enqueue, more.reserve}, []string{rr, rc, rc}},
		{"two enqueuers at REPEATABLE READ and a reservation", nothingWaits, []act{more.enqueue, more.enqueue, more.reserve}, []string{rr, rr, rc}},
		{"an enqueuer at REPEATABLE READ and two reservations", nothingWaits, []act{more.enqueue, more.reserve, more.reserve}, []string{rr, rc, rc}},
		{"a replay at REPEATABLE READ, an enqueuer and a reservation", nothingWaits, []act{more.replay, more.enqueue, more.reserve}, []string{rr, rc, rc}},
		{"a raw INSERT, an enqueue and a reservation", nothingWaits, []act{more.raw, more.enqueue, more.reserve}, []string{rc, rc, rc}},
		{"a raw INSERT rolled back, another and an enqueue", nothingWaits, []act{more.rawRolledBack, more.raw, more.enqueue}, []string{rc, rc, rc}},
		{"a first enqueue rolled back, a raw INSERT and an enqueue", nothingWaits, []act{more.rolledBack, more.raw, more.enqueue}, []string{rc, rc, rc}},
		{"a first enqueue rolled back, a raw UPDATE to PENDING and an enqueue", nothingWaits, []act{more.rolledBack, more.rawPending, more.enqueue}, []string{rc, rc, rc}},
		{"a first enqueue rolled back, a raw INSERT and a requeue", nothingWaits, []act{more.rolledBack, more.raw, more.refuse}, []string{rc, rc, rc}},
		{"a first enqueue rolled back, another and a requeue", nothingWaits, []act{more.rolledBack, more.enqueue, more.refuse}, []string{rc, rc, rc}},
		{"an enqueuer and two reservations", aJobWaits, []act{more.enqueue, more.reserve, more.reserve}, []string{rc, rc, rc}},
		{"an enqueuer of two catalogs and two reservations", nothingWaits, []act{more.enqueueMany, more.enqueue, more.reserve}, []string{rc, rc, rc}},
		{"a requeue, a rescue and an enqueue", nothingWaits, []act{more.refuse, more.rescue, more.enqueue}, []string{rc, rc, rc}},
	} {
		t.Run(c.name+", "+string(c.sc), func(t *testing.T) {
			t.Parallel()
			th := newTheatre(t, 3)
			th.everyOrder(t, c.name, c.sc, func(w *world) []schedule.Session {
				var out []schedule.Session
				for i, a := range c.acts {
					out = append(out, a.make(w, string(rune('A'+i)), c.iso[i]))
				}
				return out
			})
			t.Logf("%d schedules", th.played)
		})
	}
}
