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

// seats is what a worker's listener does about its seat, beside the worker's loop. A seat is a lock of its session: free when
// it ends.
func (m *Model) seats(s *State, i int, to func(rest, label, func(*State, *worker))) {
	w := &s.workers[i]
	if w.at == dead || m.Scenario.Seats == 0 {
		return
	}
	listens := func(l label) {
		switch {
		case m.Protocol.SeatLooksNotOnce:
			to(w.at, l, func(_ *State, w *worker) { w.line = up })
		case m.Protocol.SeatLooksFirst:
			to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = resume, true })
		default:
			to(w.at, l, func(_ *State, w *worker) { w.line = resume })
		}
	}
	switch w.line {
	case down: // connected again, it rings once: a wish from before may be in vain
		to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = reserve, true })
	case reserve:
		if w.sits {
			m.lineUp(s, w, to)
		}
	case queued:
		if s.free(w.seat) {
			to(w.at, getsSeat, func(_ *State, w *worker) { w.line = seated })
		}
	case seated:
		if w.sits {
			listens(listensAgain)
		}
	case resume:
		if m.Protocol.SeatLooksFirst {
			to(w.at, listensAgain, func(_ *State, w *worker) { w.line = up })
		} else {
			to(w.at, looksAgain, func(_ *State, w *worker) { w.line, w.bell = up, true })
		}
	}
	if !w.sits && (w.line == up || w.line == seated) {
		to(w.at, leavesSeat, func(_ *State, w *worker) { w.line, w.seat = reserve, 0 })
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
