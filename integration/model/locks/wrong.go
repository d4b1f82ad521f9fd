package locks

import "fmt"

// Wrong checks every promise.
func (m *Model) Wrong(s *State) string {
	var is names
	for p := range is {
		is[p] = proc(p)
	}
	return m.wrong(s, is)
}

func (m *Model) wrong(s *State, is names) string {
	switch s.fault {
	case duplicate:
		return m.who(is[s.faulty]) + " gets 23505"
	case tooBig:
		return m.who(is[s.faulty]) + " needs more rows than the model has room for"
	}
	if lost := s.committed &^ s.kept(); lost != 0 {
		return "an id is lost"
	}
	if c, ok := s.orphan(); ok {
		return fmt.Sprintf("an unmarked addition of catalog %c has no waiting job", 'A'+rune(c))
	}
	if s.emptyJob() {
		return "a job runs that has no ids"
	}
	if w := m.wrongWait(s, is); w != "" {
		return w
	}
	return m.undelivered(s)
}

// emptyJob finds a job that runs without ids: it does no harm, but a successor whose additions are locked by a person would
// run again and again.
func (s *State) emptyJob() bool {
	for i := range s.jobs {
		if v := s.jobs[i].is; v.status == running && v.ids == 0 {
			return true
		}
	}
	return false
}

// kept is every id that is somewhere, as any new snapshot sees it.
func (s *State) kept() ids {
	k := s.done
	for i := range s.jobs {
		k |= s.jobs[i].was.ids
	}
	for i := range s.adds {
		if s.adds[i].was {
			k |= s.adds[i].ids
		}
	}
	return k
}

func (s *State) orphan() (catalog, bool) {
	for i := range s.adds {
		if a := &s.adds[i]; a.was && !a.marked && s.waiting(nobody, a.cat) < 0 {
			return a.cat, true
		}
	}
	return 0, false
}

// undelivered lets a reserving worker look until nothing changes, while all others stay where they are. Whatever is
// committed must be taken then, unless somebody has locked its row or that of its catalog's job.
func (m *Model) undelivered(s *State) string {
	if s.committed&^s.taken() == 0 {
		return ""
	}
	worker := nobody
	for i, w := range m.Scenario.Workers {
		p := proc(len(m.Scenario.Clients) + i)
		if s.procs[p].at != idle {
			return ""
		}
		if w == Reserve1 || w == Reserve2 {
			worker = p
		}
	}
	if worker == nobody {
		return ""
	}
	t := *s
	t.crashes = 0
	for round := range 4 * maxJobs {
		if !m.look(&t, worker, round) {
			return "a look can't go on while others stand still"
		}
	}
	left := s.committed &^ t.taken()
	for i := range t.jobs {
		j := &t.jobs[i]
		if j.by == nobody {
			continue
		}
		left &^= j.was.ids
		for k := range t.adds {
			if t.adds[k].cat == j.cat {
				left &^= t.adds[k].ids
			}
		}
	}
	for k := range t.adds {
		if t.adds[k].by != nobody {
			left &^= t.adds[k].ids
		}
	}
	if left != 0 {
		return "an id is committed, nobody holds its row, and no look finds it"
	}
	return ""
}

// look is one transaction of a worker, from its look to its commit, with nobody in between; false when it has to wait.
func (m *Model) look(t *State, worker proc, choice int) bool {
	for begun := false; !begun || t.procs[worker].at != idle; begun = true {
		var next []State
		m.step(t, worker, func(u *State, _ label) { next = append(next, *u) })
		if len(next) == 0 || m.waitsFor(t, worker) != 0 {
			return t.procs[worker].at == idle
		}
		*t = next[choice%len(next)]
		t.forgetEnded(m.Scenario.replays())
		t.sortRows()
	}
	return true
}

// taken is every id that a job carries which runs or has ended.
func (s *State) taken() ids {
	k := s.done
	for i := range s.jobs {
		if v := s.jobs[i].was; v.status == running || v.status == failed {
			k |= v.ids
		}
	}
	return k
}
