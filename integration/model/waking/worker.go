package waking

func (m *Model) worker(s *State, i int, emit func(*State, label)) {
	w := &s.workers[i]
	to := func(at rest, l label, change func(t *State, w *worker)) {
		t := *s
		t.workers[i].at = at
		if change != nil {
			change(&t, &t.workers[i])
		}
		emit(&t, l)
	}
	m.seats(s, i, to)
	if w.at == frozen {
		return
	}
	m.mishaps(s, i, to)
	if w.note != quiet && w.at != wishing {
		m.says(s, i, to)
		return
	}
	switch w.at {
	case awake:
		m.look(s, w, to)
	case reserved:
		to(awake, takes, func(t *State, w *worker) {
			t.jobs[w.job-1] = none
			w.job = 0
		})
		if w.wants {
			to(stopping, takesBusy, func(t *State, w *worker) {
				t.jobs[w.job-1] = none
				w.job = 0
			})
		}
		if m.Scenario.Seats > 0 {
			to(full, takesFull, func(t *State, w *worker) {
				t.jobs[w.job-1] = none
				w.job = 0
			})
		}
	case full:
		to(awake, slotFree, nil)
		if w.sits && !m.Protocol.FullStaysSeated {
			to(full, rises, func(_ *State, w *worker) { w.sits, w.forgets = false, m.Protocol.RisesAndForgets })
		}
		if w.wants && !w.sits {
			m.takesBack(s, i, to)
		}
	case resting:
		m.takesBack(s, i, to)
	case stopping:
		m.takesBack(s, i, to)
		if m.Scenario.Lost {
			to(awake, losesAnswer, func(_ *State, w *worker) {
				m.forgets(w)
				w.late = true
			})
		}
	case wishing:
		if w.note == quiet {
			m.saysItMaySleep(s, i, to)
			return
		}
		next := lining
		if m.Protocol.WorkerTakesNoBarrier || m.Protocol.BarrierBeforeWish {
			next = awake
		}
		to(next, wishes, func(_ *State, w *worker) {
			w.wish, w.wants, w.note = true, true, quiet
			w.armed = next == awake
			if m.Protocol.NoLookAfterBarrier && w.armed {
				w.at = asleep
			}
		})
	case lining:
		to(waiting, asksBarrier, nil)
	case waiting:
		if s.barrierExclusive() {
			to(holding, getsBarrier, nil)
		}
		to(awake, missesBarrier, func(_ *State, w *worker) { w.armed = m.Protocol.MissedBarrierTrusted })
	case holding:
		switch {
		case m.Protocol.BarrierBeforeWish:
			to(wishing, endsBarrier, nil)
		case m.Protocol.NoLookAfterBarrier:
			to(asleep, endsBarrier, func(_ *State, w *worker) { w.armed = true })
		default:
			to(awake, endsBarrier, func(_ *State, w *worker) { w.armed = true })
		}
	case asleep:
		if w.bell {
			to(awake, wakes, func(_ *State, w *worker) { w.bell = false })
		}
	}
}

// forgets is what a worker believes of its wish once it is taken back, or may be.
func (m *Model) forgets(w *worker) {
	w.wants = false
	w.armed = w.armed && m.Protocol.StaysArmed
}

// saysItMaySleep is what a wish does before it is committed.
func (m *Model) saysItMaySleep(s *State, i int, to func(rest, label, func(*State, *worker))) {
	if _, other := s.noted(i); other && !m.Protocol.WishTakesNoLock {
		return // it waits
	}
	to(wishing, maySleep, func(t *State, w *worker) {
		t.nobody = t.nobody && m.Protocol.WishSetsNothing
		w.note = setting
		if m.Protocol.WishTakesNoLock {
			w.note = noLock
		}
	})
}

// takesBack is the statement that takes a wish back. When it is committed, the worker says that nobody sleeps, if that is so.
func (m *Model) takesBack(s *State, i int, to func(rest, label, func(*State, *worker))) {
	after := awake
	switch s.workers[i].at {
	case full:
		after = full
	case resting:
		after = asleep
	}
	if m.Protocol.SaysBeforeCommit && !s.nobody && !s.others(i) && s.workers[i].note == quiet {
		to(s.workers[i].at, says, func(t *State, w *worker) { t.nobody, w.note = true, noLock })
		return
	}
	to(after, stopsWishing, func(_ *State, w *worker) {
		m.forgets(w)
		w.wish, w.note = false, saying
	})
	if s.fails > 0 {
		to(awake, fails, func(t *State, w *worker) {
			t.fails--
			m.forgets(w)
			w.note = quiet
		})
	}
}

// says is how a worker says that nobody sleeps. It may fail to at each step, so that somebody may.
func (m *Model) says(s *State, i int, to func(rest, label, func(*State, *worker))) {
	w := &s.workers[i]
	switch w.note {
	case noLock: // with SaysBeforeCommit
		m.takesBack(s, i, to)
		return
	case saying:
		held, _ := s.noted(i)
		switch {
		case m.Protocol.SaysWithoutLock || m.Protocol.SaysWithoutLook:
			if !s.wishes() {
				to(w.at, seesNobody, func(_ *State, w *worker) { w.note = looked })
			}
		case !held:
			to(w.at, hasNote, func(_ *State, w *worker) { w.note = alone })
		}
	case looked:
		if held, _ := s.noted(i); held && m.Protocol.SaysWithoutLook {
			break
		}
		to(w.at, says, func(t *State, w *worker) {
			t.nobody, w.note = true, alone
			if m.Protocol.SaysWithoutLock {
				w.note = quiet
			}
		})
	case alone:
		if !s.wishes() && !s.nobody {
			to(w.at, says, func(t *State, _ *worker) { t.nobody = true })
		}
	}
	to(w.at, leavesIt, func(_ *State, w *worker) { w.note = quiet })
}

// look is a reservation's look, and what a worker makes of it.
func (m *Model) look(s *State, w *worker, to func(rest, label, func(*State, *worker))) {
	if w.forgets {
		to(asleep, sleeps, func(_ *State, w *worker) { w.sits, w.forgets = true, false })
		return
	}
	found, lockedOnly := false, false
	for c := range m.Scenario.Clients {
		switch s.jobs[c] {
		case due:
			found = true
			to(reserved, finds, func(t *State, w *worker) {
				t.jobs[c], w.job, w.bell = locked, uint8(c+1), false
			})
		case locked:
			lockedOnly = true
		}
	}
	switch {
	case found:
	case lockedOnly && !m.Protocol.SleepsThoughLocked:
		// It looks again a little later: nothing changes.
	case m.Scenario.Seats > 0 && !w.line.listens():
		m.sleepInReserve(w, to)
	case w.armed:
		to(asleep, sleeps, hasSat(m))
	case w.wants || m.Protocol.BarrierBeforeWish:
		to(lining, findsNothing, hasSat(m))
	default:
		to(wishing, findsNothing, hasSat(m))
	}
}

// hasSat forgets the bell, which rang for what this look has seen, and says that it wants a seat; in the same moment it sees
// whether it listens.
func hasSat(m *Model) func(*State, *worker) {
	return func(_ *State, w *worker) {
		w.bell = false
		w.sits = w.sits || m.Scenario.Seats > 0 && !m.Protocol.SleepsStanding
	}
}

// mishaps are what happens to a worker.
func (m *Model) mishaps(s *State, i int, to func(rest, label, func(*State, *worker))) {
	w := &s.workers[i]
	if w.at == dead {
		return
	}
	if w.late {
		to(w.at, isLate, func(_ *State, w *worker) { w.late, w.wish = false, false })
	}
	if s.deaths > 0 {
		to(dead, dies, func(t *State, w *worker) {
			t.deaths--
			if w.job > 0 {
				t.jobs[w.job-1] = due
			}
			gone := worker{at: dead, wish: w.wish}
			if m.Protocol.SeatOutlives && w.line != queued {
				gone.seat = w.seat
			}
			*w = gone
		})
	}
	if w.line == up && s.cuts > 0 {
		to(w.at, goesDeaf, func(t *State, w *worker) {
			t.cuts--
			w.line = down
		})
	}
	if m.Scenario.Seats == 0 {
		m.reconnect(w, to)
	}
}

// reconnect is how a listening connection comes back, or how one that has a seat comes to listen.
func (m *Model) reconnect(w *worker, to func(rest, label, func(*State, *worker))) {
	switch w.line {
	case down:
		switch {
		case m.Protocol.ReconnectLooksNotOnce:
			to(w.at, listensAgain, func(_ *State, w *worker) { w.line = up })
		case m.Protocol.LooksBeforeListening:
			to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = resume, true })
		default:
			to(w.at, listensAgain, func(_ *State, w *worker) { w.line = resume })
		}
	case resume:
		if m.Protocol.LooksBeforeListening || m.Protocol.SeatLooksFirst {
			to(w.at, listensAgain, func(_ *State, w *worker) { w.line = up })
		} else {
			to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = up, true })
		}
	}
}

// hears says whether a notification reaches the worker now.
func (m *Model) hears(w *worker) bool {
	return w.at != dead && w.at != frozen && (w.line == up || w.line == resume && !m.Protocol.LooksBeforeListening && !m.Protocol.SeatLooksFirst)
}
