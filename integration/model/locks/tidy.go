package locks

import "slices"

// names says, for each place, which process stands there.
type names [maxProcs]proc

// tidy gives one form to states that differ in nothing that matters: rows have no order, like clients and like workers have
// no names, and what has ended is only known to be done. It returns where each process stood before.
func (m *Model) tidy(s *State) names {
	s.forgetEnded(m.Scenario.replays())
	before := m.sortProcesses(s)
	s.sortRows()
	return before
}

// forgetEnded drops jobs that nothing can happen to any more.
func (s *State) forgetEnded(replays bool) {
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.by != nobody {
			continue
		}
		if v := j.was; v.status == running && (s.requeues == 0 || v.ids == 0) || v.status == failed && (!replays || v.ids == 0) {
			s.done |= v.ids
			s.dropJob(i)
		}
	}
}

func (m *Model) sortProcesses(s *State) (before names) {
	for p := range before {
		before[p] = proc(p)
	}
	sc := &m.Scenario
	for p := range proc(sc.size()) {
		for q := p; q > 0 && sc.alike(q-1, q) && s.procs[q].order() < s.procs[q-1].order(); q-- {
			m.swap(s, q-1, q)
			before[q-1], before[q] = before[q], before[q-1]
		}
	}
	return before
}

func (sc *Scenario) alike(p, q proc) bool {
	n := proc(len(sc.Clients))
	switch {
	case q < n:
		a, b := &sc.Clients[p], &sc.Clients[q]
		return a.RepeatableRead == b.RepeatableRead && a.Commits == b.Commits && slices.Equal(a.Calls, b.Calls)
	case p >= n:
		return sc.Workers[p-n] == sc.Workers[q-n]
	}
	return false
}

func (p *process) order() uint64 {
	n := uint64(p.at)<<32 | uint64(p.op)<<24 | uint64(p.cat)<<16 | uint64(p.got)<<12
	for i, b := range []bool{p.quiet, p.more, p.marks, p.snap, p.writes != 0, p.job != 0, p.found != 0, p.todo != 0, p.creates, p.passed} {
		if b {
			n |= 1 << i
		}
	}
	return n
}

// swap gives each of two like processes the other's name.
func (m *Model) swap(s *State, p, q proc) {
	s.procs[p], s.procs[q] = s.procs[q], s.procs[p]
	name := func(who *proc) {
		switch *who {
		case p:
			*who = q
		case q:
			*who = p
		}
	}
	for i := range s.jobs {
		name(&s.jobs[i].by)
	}
	for i := range s.adds {
		name(&s.adds[i].by)
	}
	for i := range s.catalog {
		s.beside[i] = swapBits(s.beside[i], 1<<p, 1<<q)
		for _, l := range []*lock{&s.catalog[i], &s.creating[i]} {
			name(&l.exclusive)
			l.shared = swapBits(l.shared, 1<<p, 1<<q)
			l.queue = swapBits(l.queue, 1<<p, 1<<q)
		}
	}
	if !m.Scenario.isClient(p) {
		return
	}
	for op, c := range m.Scenario.Clients[p].Calls {
		if c.Do != Enqueue && c.Do != Insert {
			continue
		}
		a, b := m.Scenario.id(p, uint8(op)), m.Scenario.id(q, uint8(op))
		for i := range s.jobs {
			s.jobs[i].was.ids = swapBits(s.jobs[i].was.ids, a, b)
			s.jobs[i].is.ids = swapBits(s.jobs[i].is.ids, a, b)
		}
		for i := range s.adds {
			s.adds[i].ids = swapBits(s.adds[i].ids, a, b)
		}
		for i := range s.procs {
			s.procs[i].writes = swapBits(s.procs[i].writes, a, b)
		}
		s.committed, s.done = swapBits(s.committed, a, b), swapBits(s.done, a, b)
	}
}

func swapBits[T ~uint8](of, a, b T) T {
	if hasA, hasB := of&a != 0, of&b != 0; hasA != hasB {
		of ^= a | b
	}
	return of
}

// sortRows sorts jobs and additions, and tells the processes where theirs are now.
func (s *State) sortRows() {
	var jobAt [maxJobs]int
	for i := range jobAt {
		jobAt[i] = i
	}
	moved := false
	for i := range s.jobs {
		for k := i; k > 0 && s.jobs[k].order() < s.jobs[k-1].order(); k-- {
			s.jobs[k], s.jobs[k-1] = s.jobs[k-1], s.jobs[k]
			jobAt[k], jobAt[k-1] = jobAt[k-1], jobAt[k]
			moved = true
		}
	}
	var addAt [maxAdds]int
	for i := range addAt {
		addAt[i] = i
	}
	for i := range s.adds {
		for k := i; k > 0 && s.adds[k].order() < s.adds[k-1].order(); k-- {
			s.adds[k], s.adds[k-1] = s.adds[k-1], s.adds[k]
			addAt[k], addAt[k-1] = addAt[k-1], addAt[k]
			moved = true
		}
	}
	if !moved {
		return
	}
	for i := range s.procs {
		p := &s.procs[i]
		var todo, found set
		job := uint8(0)
		for now, before := range jobAt {
			if p.todo&(1<<before) != 0 {
				todo |= 1 << now
			}
			if int(p.job) == before+1 {
				job = uint8(now + 1)
			}
		}
		for now, before := range addAt {
			if p.found&(1<<before) != 0 {
				found |= 1 << now
			}
		}
		p.todo, p.found, p.job = todo, found, job
	}
}

// order puts free places last.
func (j *job) order() uint64 {
	if *j == noJob {
		return 1 << 63
	}
	return uint64(j.cat)<<48 | uint64(j.was.status)<<44 | uint64(j.is.status)<<40 | uint64(j.was.ids)<<32 | uint64(j.is.ids)<<24 |
		uint64(j.by)<<16 | bit(j.was.successor)<<2 | bit(j.is.successor)<<1 | bit(j.wrote)
}

func (a *addition) order() uint64 {
	if *a == noAdd {
		return 1 << 63
	}
	return uint64(a.cat)<<48 | uint64(a.ids)<<32 | uint64(a.by)<<16 | bit(a.was)<<3 | bit(a.is)<<2 | bit(a.marked)<<1 | bit(a.from)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
