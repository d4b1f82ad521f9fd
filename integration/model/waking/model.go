package waking

import (
	"fmt"

	"notifyworker/integration/model/explore"
)

// Client is what kind of transactions a client runs, one after the other without an end.
type Client uint8

// Kinds of clients.
const (
	Plain          Client = iota // READ COMMITTED
	RepeatableRead               // or SERIALIZABLE
	Immediate                    // SET CONSTRAINTS ALL IMMEDIATE: the trigger runs before the commit
)

// Scenario is who takes part.
type Scenario struct {
	Name    string
	Workers int
	Clients []Client
	Deaths  int  // so many workers die, in the middle of a reservation or not
	Cuts    int  // so many listening connections break
	Lost    bool // a worker may lose the answer to its statement, which is carried out some time later
}

// Protocol has a field for each line left out or done otherwise. The zero value is the real one.
type Protocol struct {
	CommitsTakeNoBarrier  bool
	CommitsWait           bool // for the barrier, instead of notifying
	CommitsLookFirst      bool // lock and look in one statement: its snapshot is older than the lock
	MissedBarrierLooks    bool // who can't get the barrier looks, instead of notifying
	OldSnapshotLooks      bool // REPEATABLE READ looks, instead of notifying
	TriggersRunAtOnce     bool // they are not deferred to the commit
	LocksEndBeforeCommit  bool // PostgreSQL itself
	WorkerTakesNoBarrier  bool
	BarrierBeforeWish     bool
	NoLookAfterBarrier    bool
	MissedBarrierTrusted  bool // sleeps, though somebody kept it from the barrier
	SleepsThoughLocked    bool // something is due, but somebody has its row
	StaysArmed            bool // when it takes its wish back
	LooksBeforeListening  bool // when it is connected again
	ReconnectLooksNotOnce bool // no look at all when it is connected again
}

// Model is a protocol in a scenario.
type Model struct {
	Scenario Scenario
	Protocol Protocol
}

// Start has every worker awake and every client idle.
func (m *Model) Start() []State {
	s := State{deaths: uint8(m.Scenario.Deaths), cuts: uint8(m.Scenario.Cuts)}
	for i := m.Scenario.Workers; i < maxWorkers; i++ {
		s.workers[i].at = dead
	}
	return []State{s}
}

// Next tries everybody.
func (m *Model) Next(s *State, emit func(*State, explore.Step)) {
	for i := range m.Scenario.Workers {
		m.worker(s, i, func(t *State, l label) { emit(t, explore.Step(l)|explore.Step(i)<<8) })
	}
	for i := range m.Scenario.Clients {
		m.client(s, i, func(t *State, l label) { emit(t, explore.Step(l)|explore.Step(i)<<8|1<<16) })
	}
}

// Wrong checks that no wake-up is lost and that no commit waits.
func (m *Model) Wrong(s *State) string {
	for i := range m.Scenario.Clients {
		if m.waits(s, i) {
			return fmt.Sprintf("the commit of client %d waits for a worker", i+1)
		}
	}
	missed := false
	for i := range m.Scenario.Clients {
		missed = missed || s.jobs[i] == due
		if c := &s.clients[i]; c.notifies && (c.at == committed || c.at == telling) {
			return "" // on its way
		}
	}
	alive := false
	for i := range m.Scenario.Workers {
		w := &s.workers[i]
		if w.at == dead {
			continue
		}
		if alive = true; w.at != asleep || w.bell || w.line != up {
			return ""
		}
	}
	if missed && alive {
		return "a job is due, everybody sleeps, and no bell will ring"
	}
	return ""
}

// Tell is a sentence for each step. The last one says what is wrong.
func (m *Model) Tell(states []State, steps []explore.Step) (words []string) {
	for _, step := range steps {
		who := "worker"
		if step>>16 == 1 {
			who = "client"
		}
		words = append(words, fmt.Sprintf("%s %d %s", who, step>>8&255+1, said[label(step&255)]))
	}
	return append(words, "so "+m.Wrong(&states[len(states)-1]))
}
