package handing

// loop is the first worker's: it takes back what was not heard of or could not be taken.
func (m *Model) loop(s *State, to steps) {
	p := &m.Protocol
	switch {
	case s.loop == listed:
		m.decides(s, to, s.runs(s.shown) || s.running())
	case s.loop == waits:
		m.hearsBack(s, to)
	default:
		if s.doubt {
			to.do(asksForAll, func(t *State) { t.lists() })
		}
		if s.put { // until its time has come
			to.do(asksAgain, func(t *State) {
				t.put = false
				t.lists()
			})
		}
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

// lists is what the loop is told: the job, and the token that it has.
func (s *State) lists() {
	s.doubt = false
	if s.kept = s.kept && s.job == first; s.job == first {
		s.loop, s.shown = listed, s.token
	}
}

// decides whether to take the job back: not when this process has it, nor now when its listener asks for it.
func (m *Model) decides(s *State, to steps, runs bool) {
	asked := s.ear != quiet
	switch {
	case runs && !m.Protocol.BacksWhatRuns:
		to.do(leavesIt, func(t *State) { t.loop, t.shown = idle, 0 })
		return
	case asked && !m.Protocol.BacksWhatIsAsked:
		to.do(leavesItToListener, func(t *State) { t.loop, t.shown, t.put = idle, 0, t.put || !m.Protocol.LeavesToListener })
		return
	}
	if s.back == nothing {
		to.do(asksBack, func(t *State) { t.loop, t.back = waits, received })
	}
}

func (m *Model) hearsBack(s *State, to steps) {
	switch s.back {
	case gave:
		to.do(startsBack, func(t *State) {
			t.starts(t.given)
			t.kept = false
			t.hasHeard()
		})
	case saysAgain:
		to.do(putsOff, func(t *State) {
			t.put = t.put || !m.Protocol.NeverAsksAgain
			t.hasHeard()
		})
	case saysNobody:
		to.do(hearsAnothers, func(t *State) {
			t.put = t.put || !m.Protocol.TrustsNo
			t.kept = false
			t.hasHeard()
		})
	}
	if s.losses > 0 && (s.back == received || s.back >= gave) {
		to.do(losesAnswer, func(t *State) {
			t.losses--
			if t.back == received && m.Scenario.Late {
				t.lost = t.shown
			}
			t.doubt, t.kept = true, !m.Protocol.ForgetsWhatIsLost
			t.hasHeard()
		})
	}
}

// hasHeard ends the loop's call.
func (s *State) hasHeard() { s.loop, s.shown, s.back, s.given = idle, 0, nothing, 0 }

// takesBack is what the server does for it. Only a job that was handed over has to be locked: any other take_back has it by its row alone.
func (m *Model) takesBack(s *State, to steps) {
	p := &m.Protocol
	free := s.taken == 0 && !s.held() || p.BackWithoutLock
	is := func(asked token) bool {
		return (s.job == first || s.job == expired && p.BackExpired) && (s.token == asked || p.BackAnyToken)
	}
	if s.lost != 0 {
		to.do(backLate, func(t *State) {
			t.lost = 0
			if is(s.lost) && (free || s.lost != handed) && t.token < newest {
				t.gives()
			}
		})
	}
	give := func(then back) {
		switch {
		case !is(s.shown) && !(p.BackLooksFirst && s.job == second):
			to.do(backFindsNone, func(t *State) { t.back = saysNobody })
		case s.token < newest:
			to.do(backGives, func(t *State) {
				t.gives()
				t.back, t.given, t.by = then, t.token, true
			})
		}
	}
	switch s.back {
	case received, found:
		switch {
		case s.shown != handed:
			give(gave)
		case p.BackLooksFirst && s.back == received:
			if is(s.shown) {
				to.do(backFinds, func(t *State) { t.back = found })
				return
			}
			to.do(backFindsNone, func(t *State) { t.back = saysNobody })
		case free:
			to.do(backLocks, func(t *State) { t.back, t.by = locked, true })
		default:
			to.do(backLocksNot, func(t *State) { t.back = lockedNot })
		}
	case lockedNot:
		if is(s.shown) {
			to.do(backFinds, func(t *State) { t.back = saysAgain })
			return
		}
		to.do(backFindsNone, func(t *State) { t.back = saysNobody })
	case locked:
		give(committed)
	case committed:
		to.do(backLets, func(t *State) { t.back = gave })
	}
}

// gives the job another token of the first worker's.
func (s *State) gives() {
	s.job, s.token = first, max(s.token, byLook)+1
}
