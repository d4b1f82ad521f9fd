package locks

import "fmt"

// waitsFor is the processes that keep p from doing its next step; 0 when it can go on. Locks that are tried are no reason
// to wait.
func (m *Model) waitsFor(s *State, p proc) set {
	x := &stepper{Model: m, s: s, p: p, me: &s.procs[p]}
	c, pr := x.me.cat, &m.Protocol
	index := func(self int) set {
		w, _ := s.unique(p, c, self)
		return w
	}
	switch x.me.at {
	case replayLock:
		return x.catalogLock(s).inTheWay(p, false)
	case enqueueLock:
		if !pr.EnqueueTakesNoLock {
			return x.catalogLock(s).inTheWay(p, false)
		}
	case guardLock:
		if !pr.RawTakesNoLock {
			return x.catalogLock(s).inTheWay(p, false)
		}
	case enqueueCreate:
		if pr.EnqueueWaitsForCreating {
			return x.creatingLock(s).inTheWay(p, true)
		}
	case enqueueInsert, rawInsert:
		return index(-1)
	case requeueReturn:
		return index(int(x.me.job) - 1)
	case reserveLeave, cancelLeave:
		w := index(-1)
		if pr.SuccessorTakesLock {
			w |= x.catalogLock(s).inTheWay(p, false)
		}
		return w
	case cancelRow:
		if i := s.waiting(p, c); i >= 0 && s.jobs[i].by != nobody {
			return 1 << s.jobs[i].by &^ (1 << p)
		}
	case reserveTry:
		if pr.ReserveWaitsForLock {
			return x.catalogLock(s).inTheWay(p, true)
		}
	case requeueTry:
		if pr.RequeueWaitsForLock {
			return x.catalogLock(s).inTheWay(p, true)
		}
	case reserveTake, markedTake, cancelTake:
		if pr.FoldWaits {
			return s.rowsOf(p)
		}
	}
	return 0
}

// rowsOf is who holds additions that p has found.
func (s *State) rowsOf(p proc) (w set) {
	for i := range s.adds {
		if a := &s.adds[i]; s.procs[p].found&(1<<i) != 0 && a.by != nobody && a.by != p {
			w |= 1 << a.by
		}
	}
	return w
}

// wrongWait finds circles, and who waits for a client's open transaction and must not. Plain SQL may wait, as always, and
// so may a cancel for the row of its job.
func (m *Model) wrongWait(s *State, is names) string {
	var waits [maxProcs]set
	for p := range proc(m.Scenario.size()) {
		waits[p] = m.waitsFor(s, p)
	}
	for p := range proc(m.Scenario.size()) {
		if waits[p] == 0 {
			continue
		}
		reach := waits[p]
		for before := set(0); before != reach; {
			before = reach
			for q := range proc(m.Scenario.size()) {
				if reach&(1<<q) != 0 {
					reach |= waits[q]
				}
			}
		}
		if reach&(1<<p) != 0 {
			return m.who(is[p]) + " waits for somebody who waits for it: a deadlock"
		}
		switch s.procs[p].at {
		case guardLock, rawInsert, cancelRow:
			continue
		}
		for q := range proc(m.Scenario.size()) {
			if reach&(1<<q) != 0 && s.procs[q].at == open && !m.forgives(s, p) {
				return fmt.Sprintf("%s waits for the open transaction of %s", m.who(is[p]), m.who(is[q]))
			}
		}
	}
	return ""
}

// forgives says whether p may wait on the index for a client's open transaction: since a plain INSERT came between its asking
// whether one is beside it and its own INSERT. That one could not get "creating", which p has; to be sure of it, it would have to
// wait for a client without an end. Only who creates a catalog's first job meets it (or who cancels that INSERT's job right after
// its commit); a reservation never does.
func (m *Model) forgives(s *State, p proc) bool { return s.procs[p].passed && !m.Protocol.Strict }
