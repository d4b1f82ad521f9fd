package waking

// sleepInReserve is how a worker falls asleep that finds nothing and does not listen: it wants a seat, and nobody needs to
// tell it of jobs before it has one.
func (m *Model) sleepInReserve(w *worker, to func(rest, label, func(*State, *worker))) {
	next := asleep
	if w.line != down && w.wants {
		next = resting
	}
	to(next, restsInReserve, hasSat(m))
}

// seats is what a worker's listener does about its seat, beside the worker's loop. A seat is a lock of a session of its own:
// free when that ends.
func (m *Model) seats(s *State, i int, to func(rest, label, func(*State, *worker))) {
	w := &s.workers[i]
	if w.at == dead || m.Scenario.Seats == 0 {
		return
	}
	if w.line == queued && s.free(w.seat) { // the server gives it, whether somebody is awake to take it or not
		to(w.at, getsSeat, func(_ *State, w *worker) { w.line, w.bell = seated, !m.Protocol.SeatLooksNotOnce })
	}
	if w.at == frozen {
		return
	}
	switch w.line {
	case reserve:
		if w.sits {
			m.lineUp(s, w, to)
		}
	case seated:
		if w.sits {
			m.listens(w, to)
		}
	case down, resume:
		m.reconnect(w, to)
	case up:
		if w.seat == 0 && w.sits { // its seat's session has broken: it listens on, and asks again
			m.seatAgain(s, w, to)
		}
	}
	if s.cuts > 0 && w.seat > 0 {
		to(w.at, losesSeat, func(t *State, w *worker) {
			t.cuts--
			w.seat = 0
			if w.line != up && w.line != resume && w.line != down {
				w.line = reserve
			}
		})
	}
	if !w.sits && (w.seat > 0 || w.line == up) {
		m.leaves(s, i, to)
	}
}

// listens is what one does who has a seat.
func (m *Model) listens(w *worker, to func(rest, label, func(*State, *worker))) {
	switch {
	case m.Protocol.SeatLooksNotOnce:
		to(w.at, listensAgain, func(_ *State, w *worker) { w.line = up })
	case m.Protocol.SeatLooksFirst:
		to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = resume, true })
	default:
		to(w.at, listensAgain, func(_ *State, w *worker) { w.line = resume })
	}
}

// lineUp takes a free seat, or waits for any one when there is none.
func (m *Model) lineUp(s *State, w *worker, to func(rest, label, func(*State, *worker))) {
	found := false
	for seat := uint8(1); int(seat) <= m.Scenario.Seats; seat++ {
		if s.free(seat) {
			found = true
			to(w.at, takesSeat, func(_ *State, w *worker) { w.line, w.seat = seated, seat })
		}
	}
	for seat := uint8(1); int(seat) <= m.Scenario.Seats && !found; seat++ {
		to(w.at, linesUp, func(_ *State, w *worker) { w.line, w.seat = queued, seat })
	}
}

// seatAgain is what one does who listens and has no seat: if it can't have one, it stops listening, and rings once, as its
// wish is in vain now.
func (m *Model) seatAgain(s *State, w *worker, to func(rest, label, func(*State, *worker))) {
	found := false
	for seat := uint8(1); int(seat) <= m.Scenario.Seats; seat++ {
		if s.free(seat) {
			found = true
			to(w.at, takesSeat, func(_ *State, w *worker) { w.seat = seat })
		}
	}
	if !found {
		to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = reserve, true })
	}
}

// leaves gives a seat up. If nobody has waited for just this one and at most one other is taken, whose owner may have frozen,
// somebody who waits for that is called away: it finds this one free.
func (m *Model) leaves(s *State, i int, to func(rest, label, func(*State, *worker))) {
	w := &s.workers[i]
	gone := func(w *worker) { w.line, w.seat = reserve, 0 }
	taken, called := 0, false
	for j := range s.workers {
		o := &s.workers[j]
		if j == i || o.seat == 0 {
			continue
		}
		if o.seat == w.seat {
			taken = len(s.workers) // more than one
		}
		if o.line != queued {
			taken++
		}
	}
	for j := range s.workers {
		if o := &s.workers[j]; w.seat > 0 && taken <= 1 && j != i && o.line == queued && !m.Protocol.NobodyCalled {
			called = true
			to(w.at, callsAway, func(t *State, w *worker) {
				gone(w)
				if o := &t.workers[j]; o.at != frozen {
					gone(o)
				}
			})
		}
	}
	if !called {
		to(w.at, leavesSeat, func(_ *State, w *worker) { gone(w) })
	}
}
