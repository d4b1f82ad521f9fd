package handing

// loop is the first worker's: it takes back what was not heard of or could not be taken.
func (m *Model) loop(s *State, to steps) {
	p := &m.Protocol
	switch {
	case s.loop == listed:
		m.decides(s, to, s.runs(s.shown) || s.running())
	case s.loop == waits:
		m.hearsBack(s, to)
	case s.doubt:
		to.do(asksForAll, func(t *State) {
			t.doubt, t.put = false, false
			if t.job == first {
				t.loop, t.shown = listed, t.token
			}
		})
	case s.put:
		m.decides(s, to, s.running())
	}
	switch s.hung {
	case listens:
		if m.Scenario.HangsUp && s.conn != 0 && s.ear == quiet {
			to.do(hangsUp, func(t *State) {
				t.conn, t.note, t.let, t.hung = 0, false, 0, closed
				if p.HungUpAtOnce {
					t.hung, t.doubt = reserved, true
				}
			})
		}
	case closed:
		if s.alive == 0 {
			to.do(seesItsEnd, func(t *State) {
				if t.hung = barrier; p.HungUpNoBarrier {
					t.hung, t.doubt = reserved, true
				}
			})
		}
	case barrier:
		if s.job != written {
			to.do(passesBarrier, func(t *State) { t.hung, t.doubt = reserved, true })
		}
	}
}

// decides whether to take the job back: not when this process has it, nor now when its listener asks for it.
func (m *Model) decides(s *State, to steps, runs bool) {
	asked := s.ear != quiet
	switch {
	case runs && !m.Protocol.BacksWhatRuns:
		to.do(leavesIt, func(t *State) { t.loop, t.put = idle, t.loop == listed && t.put })
		return
	case asked && !m.Protocol.BacksWhatIsAsked:
		to.do(leavesItToListener, func(t *State) { t.loop, t.put = idle, !m.Protocol.LeavesToListener })
		return
	}
	if s.back == nothing {
		to.do(asksBack, func(t *State) { t.loop, t.put, t.back = waits, t.loop == listed && t.put, received })
	}
}

func (m *Model) hearsBack(s *State, to steps) {
	switch s.back {
	case gave:
		to.do(startsBack, func(t *State) {
			t.loop, t.back = idle, nothing
			t.starts(t.given)
			t.given = 0
		})
	case saysAgain:
		to.do(putsOff, func(t *State) { t.loop, t.back, t.put = idle, nothing, !m.Protocol.NeverAsksAgain || t.put })
	case saysNobody:
		to.do(hearsAnothers, func(t *State) { t.loop, t.back = idle, nothing })
	}
	if s.losses > 0 && (s.back == received || s.back >= gave) {
		to.do(losesAnswer, func(t *State) {
			t.losses--
			t.lost = t.back == received && m.Scenario.Late
			t.loop, t.back, t.given, t.doubt = idle, nothing, 0, true
		})
	}
}

// takesBack is what the server does for it.
func (m *Model) takesBack(s *State, to steps) {
	p := &m.Protocol
	free := s.taken == 0 && !s.held() || p.BackWithoutLock
	if s.lost {
		to.do(backLate, func(t *State) {
			t.lost = false
			if t.firsts() && free && t.token < newest {
				t.gives()
			}
		})
	}
	switch s.back {
	case received:
		if s.firsts() {
			to.do(backFinds, func(t *State) { t.back = found })
			return
		}
		to.do(backFindsNone, func(t *State) { t.back = saysNobody })
	case found:
		switch {
		case free:
			to.do(backLocks, func(t *State) { t.back, t.by = locked, true })
		case s.firsts():
			to.do(backLocksNot, func(t *State) { t.back = saysAgain })
		default:
			to.do(backLocksNot, func(t *State) { t.back = saysNobody })
		}
	case locked:
		switch {
		case !s.firsts() && !(p.BackLooksFirst && s.job == second):
			to.do(backFindsNone, func(t *State) { t.back = saysNobody })
		case s.token < newest:
			to.do(backGives, func(t *State) {
				t.gives()
				t.back, t.given = committed, t.token
			})
		}
	case committed:
		to.do(backLets, func(t *State) { t.back = gave })
	}
}

// gives the job another token of the first worker's.
func (s *State) gives() {
	s.job, s.token = first, max(s.token, byLook)+1
}
