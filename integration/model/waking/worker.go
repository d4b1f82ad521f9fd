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
	m.mishaps(s, i, to)
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
	case stopping:
		forgets := func(w *worker) {
			w.wants = false
			w.armed = w.armed && m.Protocol.StaysArmed
		}
		to(awake, stopsWishing, func(_ *State, w *worker) {
			forgets(w)
			w.wish = false
		})
		if m.Scenario.Lost {
			to(awake, losesAnswer, func(_ *State, w *worker) {
				forgets(w)
				w.late = true
			})
		}
	case wishing:
		next := lining
		if m.Protocol.WorkerTakesNoBarrier || m.Protocol.BarrierBeforeWish {
			next = awake
		}
		to(next, wishes, func(_ *State, w *worker) {
			w.wish, w.wants = true, true
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

// look is a reservation's look, and what a worker makes of it.
func (m *Model) look(s *State, w *worker, to func(rest, label, func(*State, *worker))) {
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
	case w.armed:
		to(asleep, sleeps, hasLooked)
	case w.wants || m.Protocol.BarrierBeforeWish:
		to(lining, findsNothing, hasLooked)
	default:
		to(wishing, findsNothing, hasLooked)
	}
}

// hasLooked forgets the bell: it rang for what this look has seen.
func hasLooked(_ *State, w *worker) { w.bell = false }

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
			*w = worker{at: dead, wish: w.wish}
		})
	}
	switch w.line {
	case up:
		if s.cuts > 0 {
			to(w.at, goesDeaf, func(t *State, w *worker) {
				t.cuts--
				w.line = down
			})
		}
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
		if m.Protocol.LooksBeforeListening {
			to(w.at, listensAgain, func(_ *State, w *worker) { w.line = up })
		} else {
			to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = up, true })
		}
	}
}

// hears says whether a notification reaches the worker now.
func (m *Model) hears(w *worker) bool {
	return w.at != dead && (w.line == up || w.line == resume && !m.Protocol.LooksBeforeListening)
}
