package handing

// secondWorker looks after the job, and takes it over when it has been let lie.
func (m *Model) secondWorker(s *State, to steps) {
	p := &m.Protocol
	key := session(1) // in the token
	if p.AnyKey {
		key = s.conn
	}
	lives := s.lives(key) || s.fading != 0 && s.fading == key || p.OverTheDead
	look := func(then after) {
		if lives {
			to.do(seesItLives, func(t *State) { t.after = then })
			return
		}
		to.do(seesItGone, func(t *State) { t.after = away })
	}
	was := s.job == first && (s.token == handed || p.AnyToken)
	switch s.after {
	case told:
		if !was {
			to.do(leaves, func(t *State) { t.after = away })
			return
		}
		to.do(reads, func(t *State) { t.after = read })
	case read:
		switch {
		case p.LooksBeforeLocking:
			look(checked)
		case p.OverWithoutLock:
			look(sure)
		default:
			m.lockJob(s, to, hasLock)
		}
	case checked:
		m.lockJob(s, to, sure)
	case hasLock:
		look(sure)
	case sure:
		to.do(takesOver, func(t *State) {
			t.after = away
			if was { // it has the row's lock, and the token is what it was
				t.job, t.token, t.after = second, 0, runs
			}
		})
	case runs:
		to.do(secondConcludes, func(t *State) {
			t.after = away
			if t.job == second || p.TakesAnybodys && t.token == handed {
				t.job = done
			}
			if t.taken == others {
				t.taken, t.times = 0, 0
			}
		})
	case away:
		if s.forged == 0 || m.Scenario.Alone || s.job < first {
			return
		}
		to.do(isTold, func(t *State) { t.forged--; t.after = told })
		if p.TakesAnybodys && s.job == first && s.token == handed && s.taken == 0 && !s.held() {
			to.do(takesAnothers, func(t *State) { t.forged--; t.after, t.taken, t.times = runs, others, 1 })
		}
	}
	if s.job == expired && s.back < locked {
		to.do(rescues, func(t *State) { t.job = rescued })
	}
}

func (m *Model) lockJob(s *State, to steps, then after) {
	if s.taken != 0 || s.held() {
		to.do(leaves, func(t *State) { t.after = away })
		return
	}
	to.do(locks, func(t *State) { t.after = then })
}
