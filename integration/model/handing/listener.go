package handing

// listener is the goroutine of the first worker's that hears notifications: it sends take_lock and take_look on the session by which it
// hears.
func (m *Model) listener(s *State, to steps) {
	p := &m.Protocol
	if s.conn == 0 && s.hung == listens && s.last < sessions {
		to.do(opens, func(t *State) {
			t.last++
			t.conn = t.last
			t.alive |= 1 << t.conn
			t.doubt = t.doubt || !p.NeverAsks
		})
	}
	if s.conn == 0 {
		return
	}
	switch s.ear {
	case quiet:
		switch {
		case !s.note:
		case s.running() || (s.loop == waits || s.kept) && !p.BacksWhatIsAsked:
			to.do(knowsIt, func(t *State) { t.note = false })
		default:
			to.do(asks, func(t *State) { t.note, t.ear = false, sent })
		}
	case own:
		m.startsTaken(s, to)
	case again:
		to.do(hearsNotNow, func(t *State) { t.ear, t.put = quiet, !p.NeverAsksAgain || t.put })
	case none:
		to.do(hearsAnothers, func(t *State) { t.ear = quiet })
	case strange:
		if s.lives(s.conn) {
			to.do(letsGo, func(t *State) {
				t.ear = quiet
				t.unlock(t.conn)
			})
		}
	}
}

// startsTaken is what it does with an answer: it starts the job itself.
func (m *Model) startsTaken(s *State, to steps) {
	if s.runs(s.ans) || s.isOver(s.ans) { // or released by its token, which is the row's no more
		to.do(drops, func(t *State) {
			t.ear = quiet
			t.let++
			if t.job == expired && t.token == t.ans && !t.running() {
				t.job = rescued
			}
		})
		return
	}
	to.do(starts, func(t *State) {
		t.ear = quiet
		t.starts(t.ans)
		if m.Protocol.LetsEarly {
			t.unlock(t.conn)
		}
	})
}

// takes is what the server does for it.
func (m *Model) takes(s *State, to steps) {
	p := &m.Protocol
	if s.late != 0 {
		to.do(carriesOutLate, func(t *State) {
			if t.lives(t.late) && t.firsts() && t.token == handed && t.taken == 0 && !t.held() {
				t.taken, t.times, t.by = t.late, 1, true
			}
			t.late = 0
		})
	}
	if s.ear == quiet || !s.lives(s.conn) {
		return
	}
	mine := s.firsts() && (s.token == handed || p.TakesWhatIsBack)
	free := (s.taken == 0 || s.taken == s.conn) && !s.held()
	lock := func(t *State) {
		t.taken, t.by = t.conn, true
		t.times++
	}
	answer := func(t *State, e ear) {
		if t.ear = e; e == own {
			t.ans = t.token
		}
	}
	switch s.ear {
	case sent:
		switch {
		case p.LooksFirst && mine:
			to.do(looks, func(t *State) { answer(t, own); t.ear = looked })
		case mine && (s.conn == 1 || p.TakesByAnySession || s.token != handed):
			to.do(findsRow, func(t *State) { t.ear = seen })
		default:
			to.do(findsNoRow, func(t *State) { t.ear = hadNot })
		}
	case looked, seen:
		then := had
		if s.ear == looked {
			then = own
		}
		if free {
			to.do(locksIt, func(t *State) { lock(t); t.ear = then })
			return
		}
		to.do(locksNot, func(t *State) {
			if t.ear = hadNot; then == own {
				t.ear = again
			}
		})
	case had:
		if mine {
			to.do(looks, func(t *State) { answer(t, own) })
			return
		}
		to.do(looksInVain, func(t *State) { t.ear = strange })
	case hadNot:
		if mine {
			to.do(looks, func(t *State) { t.ear = again })
			return
		}
		to.do(looksInVain, func(t *State) { t.ear = none })
	}
}
