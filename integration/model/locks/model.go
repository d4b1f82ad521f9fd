package locks

import (
	"fmt"
	"strings"

	"notifyworker/integration/model/explore"
)

// Model is a protocol in a scenario.
type Model struct {
	Scenario Scenario
	Protocol Protocol
}

// Start is the one state in which the scenario begins.
func (m *Model) Start() []State { return []State{m.Scenario.start()} }

// Next tries every process.
func (m *Model) Next(s *State, emit func(*State, explore.Step)) {
	for p := range proc(m.Scenario.size()) {
		m.step(s, p, func(t *State, l label) {
			m.tidy(t)
			emit(t, explore.Step(p)<<16|explore.Step(l))
		})
	}
}

// Tell follows each process by name, though like ones change places. The last sentence says what is wrong.
func (m *Model) Tell(states []State, steps []explore.Step) (words []string) {
	var is names
	for p := range is {
		is[p] = proc(p)
	}
	for i, step := range steps {
		p, told := proc(step>>16), false
		m.step(&states[i], p, func(t *State, l label) {
			c := t.procs[p].cat
			if before := m.tidy(t); !told && l == label(step&255) && *t == states[i+1] {
				told = true
				words = append(words, m.who(is[p])+" "+strings.ReplaceAll(said[l], "%c", string('A'+rune(c))))
				was := is
				for q := range is {
					is[q] = was[before[q]]
				}
			}
		})
	}
	return append(words, "so "+m.wrong(&states[len(states)-1], is))
}

func (m *Model) who(p proc) string {
	sc := &m.Scenario
	if !sc.isClient(p) {
		w := int(p) - len(sc.Clients)
		return fmt.Sprintf("worker %d (%s)", w+1, [...]string{"reserve", "reserve", "requeue", "release"}[sc.Workers[w]])
	}
	if sc.Clients[p].RepeatableRead {
		return fmt.Sprintf("client %d (REPEATABLE READ)", p+1)
	}
	return fmt.Sprintf("client %d", p+1)
}

// stepper is one process about to do one thing.
type stepper struct {
	*Model
	s    *State
	p    proc
	me   *process // in s: not to be written
	emit func(*State, label)
}

// to lets the process go on to another place, having changed what change says.
func (x *stepper) to(at place, l label, change func(t *State, me *process)) {
	t := *x.s
	me := &t.procs[x.p]
	me.at = at
	if change != nil {
		change(&t, me)
	}
	x.emit(&t, l)
}

func (x *stepper) worker() Worker { return x.Scenario.Workers[int(x.p)-len(x.Scenario.Clients)] }

func (x *stepper) catalogLock(s *State) *lock  { return &s.catalog[x.Scenario.stripe(x.me.cat)] }
func (x *stepper) creatingLock(s *State) *lock { return &s.creating[x.Scenario.stripe(x.me.cat)] }
func (x *stepper) besideLock(s *State) *set    { return &s.beside[x.Scenario.stripe(x.me.cat)] }

// step emits each thing that p can do in s; nothing when it waits or is through.
func (m *Model) step(s *State, p proc, emit func(*State, label)) {
	x := &stepper{Model: m, s: s, p: p, me: &s.procs[p], emit: emit}
	client := m.Scenario.isClient(p)
	if m.waitsFor(s, p) != 0 {
		x.wait()
	} else {
		x.program()
	}
	if !client && s.crashes > 0 && x.me.at != idle && x.me.at != committed && (s.holdsRows(p) || s.holdsLocks(p)) {
		x.rollback(idle, dies, func(t *State) { t.crashes-- })
	}
}

func (x *stepper) program() {
	switch x.me.at {
	case idle:
		if x.Scenario.isClient(x.p) {
			x.beginClient()
		} else {
			x.beginWorker()
		}
	case open:
		x.between()
	case ready:
		x.commit(idle)
	case committed:
		x.to(x.me.was, endsLocks, func(t *State, me *process) {
			t.releaseLocks(x.p)
			x.forget(me)
		})
	case unlocked:
		x.to(x.me.was, commits, func(t *State, me *process) {
			t.commit(x.p)
			x.forget(me)
		})
	case enqueueLock, enqueueLook, enqueueCreate, enqueueAsk, enqueueInsert:
		x.enqueue()
	case guardLock, guardCreate, guardBeside, rawInsert:
		x.raw()
	case cancelRow, cancelTry, cancelFold, cancelTake, cancelLeave:
		x.cancel()
	case lockRows:
		x.lockRows()
	case reserveRow, reserveGlance, reserveTry, reserveAlone, reserveCount, reserveFold, reserveTake, reserveLeave:
		x.reserve()
	case markedLook, markedRow, markedFold, markedTake:
		x.reserveMarked()
	case requeueTry, replayLock, replayCreate, replayAsk, requeueLook, requeueReturn:
		x.requeue()
	case wakeLook, wakeTake:
		x.wake()
	}
}

// wait is what a process can do that can't go on: stand in line for an exclusive lock.
func (x *stepper) wait() {
	switch x.me.at {
	case enqueueCreate:
		if x.creatingLock(x.s).queue&(1<<x.p) == 0 {
			x.to(x.me.at, queuesFor, func(t *State, _ *process) { x.creatingLock(t).queue |= 1 << x.p })
		}
	case requeueTry, reserveTry:
		if x.catalogLock(x.s).queue&(1<<x.p) == 0 {
			x.to(x.me.at, queuesFor, func(t *State, _ *process) { x.catalogLock(t).queue |= 1 << x.p })
		}
	}
}

// commit ends the transaction in two steps, as PostgreSQL does: first all see what it wrote, then its locks end.
func (x *stepper) commit(then place) {
	switch {
	case !x.s.holdsLocks(x.p):
		l := commits
		if !x.s.holdsRows(x.p) {
			l = endsTransaction
		}
		x.to(then, l, func(t *State, me *process) {
			t.commit(x.p)
			x.forget(me)
		})
	case x.Protocol.LocksEndBeforeCommit:
		x.to(unlocked, endsLocks, func(t *State, me *process) {
			t.releaseLocks(x.p)
			me.was = then
		})
	default:
		x.to(committed, commits, func(t *State, me *process) {
			t.commit(x.p)
			me.was = then
		})
	}
}

func (x *stepper) rollback(then place, l label, also func(*State)) {
	x.to(then, l, func(t *State, me *process) {
		t.undo(x.p)
		t.releaseLocks(x.p)
		x.forget(me)
		if also != nil {
			also(t)
		}
	})
}

// forget clears what a process knew of its transaction.
func (x *stepper) forget(me *process) { *me = process{at: me.at} }

// fail is an error that must never be.
func (x *stepper) fail(f fault) {
	x.to(x.me.at, failsDuplicate, func(t *State, _ *process) { t.fault, t.faulty = f, x.p })
}
