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
	Seats   int // 0: everybody listens, always
	Clients []Client
	Deaths  int  // so many workers die, in the middle of a reservation or not
	Cuts    int  // so many listening connections, or sessions of seats, break
	Frozen  bool // one more worker has frozen on a seat, for ever
	Fails   int  // so many statements that take a wish back fail at their commit
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
	WishSetsNothing       bool // a wish does not say that somebody may sleep
	WishTakesNoLock       bool // it says so without the lock
	SaysWithoutLock       bool // who has taken its wish back says that nobody sleeps, without the lock
	SaysWithoutLook       bool // without a look once it has the lock
	SaysBeforeCommit      bool // before it is committed that it does not want to be told
	AsksBeforeBarrier     bool // a commit asks whether anybody sleeps before it has the barrier
	LooksBeforeListening  bool // when it is connected again
	ReconnectLooksNotOnce bool // no look at all when it is connected again

	FullStaysSeated  bool // a full worker does not leave its seat
	RisesAndForgets  bool // and when a slot is free again it does not look, as nobody rang
	SleepsStanding   bool // a worker that has risen sleeps again without asking for a seat
	SeatLooksNotOnce bool // who gets a seat does not look
	SeatLooksFirst   bool // who gets a seat looks and then listens
	NobodyCalled     bool // to a seat that was left and that nobody has waited for
	SeatOutlives     bool // PostgreSQL itself: the seat of one who died stays taken
}

// Model is a protocol in a scenario.
type Model struct {
	Scenario Scenario
	Protocol Protocol
}

// Start has every worker awake and every client idle.
func (m *Model) Start() []State {
	s := State{deaths: uint8(m.Scenario.Deaths), cuts: uint8(m.Scenario.Cuts), fails: uint8(m.Scenario.Fails)}
	for i := range s.workers {
		w := &s.workers[i]
		switch {
		case i >= m.Scenario.Workers:
			w.at = dead
		case m.Scenario.Seats > 0:
			w.line, w.sits = reserve, true
		}
	}
	if !m.Scenario.Frozen {
		return []State{s}
	}
	s.workers[m.Scenario.Workers] = worker{at: frozen, line: up, seat: uint8(m.Scenario.Seats)}
	t := s
	t.workers[m.Scenario.Workers].wish = true
	return []State{s, t}
}

// Next tries everybody.
func (m *Model) Next(s *State, emit func(*State, explore.Step)) {
	for i := range m.Scenario.Workers {
		m.worker(s, i, func(t *State, l label) { m.tidy(t); emit(t, explore.Step(l)|explore.Step(i)<<8) })
	}
	for i := range m.Scenario.Clients {
		m.client(s, i, func(t *State, l label) { m.tidy(t); emit(t, explore.Step(l)|explore.Step(i)<<8|1<<16) })
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
	idle := false
	for i := range m.Scenario.Workers {
		w := &s.workers[i]
		idle = idle || w.at == asleep
		if m.goesOn(s, w) {
			return ""
		}
	}
	if missed && idle {
		return "a job is due, everybody sleeps, and no bell will ring"
	}
	return ""
}

// goesOn says whether a worker will still do something unasked.
func (m *Model) goesOn(s *State, w *worker) bool {
	switch w.at {
	case dead, frozen:
		return false
	case full: // it leaves its seat, if it hasn't yet
		return !m.Protocol.FullStaysSeated && (w.sits || w.seat > 0 || w.line == up)
	case asleep:
	default:
		return true
	}
	switch w.line {
	case down, resume, seated:
		return true
	case reserve:
		return w.sits
	case queued:
		return s.free(w.seat)
	}
	return w.bell || m.Scenario.Seats > 0 && (!w.sits || w.seat == 0)
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
