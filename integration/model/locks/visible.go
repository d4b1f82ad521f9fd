package locks

// seen is what a statement of p sees of a job: what p has written, else what is committed.
func (j *job) seen(p proc) version {
	if j.by == p {
		return j.is
	}
	return j.was
}

func (a *addition) seen(p proc) bool {
	if a.by == p {
		return a.is
	}
	return a.was
}

// waiting is the place of the catalog's PENDING job as a statement of p sees it, or -1.
func (s *State) waiting(p proc, c catalog) int {
	for i := range s.jobs {
		if j := &s.jobs[i]; j.cat == c && j.seen(p).status == pending {
			return i
		}
	}
	return -1
}

// additions of the catalog, as a statement of p sees them.
func (s *State) additions(p proc, c catalog) (found set) {
	for i := range s.adds {
		if a := &s.adds[i]; a.cat == c && a.seen(p) {
			found |= 1 << i
		}
	}
	return found
}

// unique is what the partial unique index says to p, which is about to make row self (-1: a new one) the PENDING job of the
// catalog: whom to wait for first, and whether a PENDING job is there already. An index looks at every version of a row,
// whatever the snapshot.
func (s *State) unique(p proc, c catalog, self int) (wait set, taken bool) {
	for i := range s.jobs {
		j := &s.jobs[i]
		if i == self || j.cat != c {
			continue
		}
		switch {
		case j.by == p:
			taken = taken || j.is.status == pending
		case j.wrote && (j.was.status == pending || j.is.status == pending):
			wait |= 1 << j.by
		case !j.wrote && j.was.status == pending:
			taken = true
		}
	}
	return wait, taken
}
