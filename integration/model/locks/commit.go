package locks

// commit makes what p has written visible; its row locks end with that, its advisory locks don't.
func (s *State) commit(p proc) {
	s.committed |= s.procs[p].writes
	s.procs[p].writes = 0
	for i := range s.jobs {
		if j := &s.jobs[i]; j.by == p {
			j.was, j.by, j.wrote = j.is, nobody, false
			if j.was.status == absent {
				s.dropJob(i)
			}
		}
	}
	for i := range s.adds {
		if a := &s.adds[i]; a.by == p {
			a.was, a.by = a.is, nobody
			if !a.was {
				s.dropAdd(i)
			}
		}
	}
}

// undo takes back what p has written.
func (s *State) undo(p proc) {
	for i := range s.jobs {
		if j := &s.jobs[i]; j.by == p {
			j.is, j.by, j.wrote = j.was, nobody, false
			if j.was.status == absent {
				s.dropJob(i)
			}
		}
	}
	for i := range s.adds {
		if a := &s.adds[i]; a.by == p {
			a.is, a.by = a.was, nobody
			if !a.was {
				s.dropAdd(i)
			}
		}
	}
}

func (s *State) releaseLocks(p proc) {
	for i := range s.catalog {
		s.catalog[i].release(p)
		s.creating[i].release(p)
		s.beside[i] &^= 1 << p
	}
}

func (s *State) holdsLocks(p proc) bool {
	for i := range s.catalog {
		if (s.catalog[i].holders()|s.creating[i].holders()|s.beside[i])&(1<<p) != 0 {
			return true
		}
	}
	return false
}

func (s *State) holdsRows(p proc) bool {
	for i := range s.jobs {
		if s.jobs[i].by == p {
			return true
		}
	}
	for i := range s.adds {
		if s.adds[i].by == p {
			return true
		}
	}
	return false
}
