package handing

// mishaps are what nobody does on purpose.
func (m *Model) mishaps(s *State, to steps) {
	if s.fading != 0 {
		to.do(fades, func(t *State) { t.fading = 0 })
	}
	for n := session(1); n <= s.last; n++ {
		if s.lives(n) && s.fading == 0 && (n != s.conn || s.cuts > 0) {
			to.do(breaks+label(n)-1, func(t *State) { m.ends(t, n) })
		}
	}
	if s.conn != 0 && s.life == awake && (s.cuts > 0 || !s.lives(s.conn)) {
		to.do(loses, func(t *State) {
			if t.lives(t.conn) {
				t.cuts--
				if t.ear == sent || t.ear == seen {
					t.late = t.conn
				}
			}
			t.doubt = t.doubt || t.ear != quiet
			t.conn, t.note, t.ear, t.let = 0, false, quiet, 0
		})
	}
	if s.forged > 0 && s.conn != 0 && !s.note && s.life == awake {
		to.do(isForged, func(t *State) { t.forged--; t.note = true })
	}
	if m.Scenario.Freezes && s.life == awake {
		to.do(freezes, func(t *State) { t.life = frozen })
	}
	if s.life == frozen {
		to.do(thaws, func(t *State) { t.life = awake })
	}
	if m.Scenario.Dies && s.life != dead {
		to.do(dies, func(t *State) {
			t.life, t.conn, t.note, t.ear, t.let = dead, 0, false, quiet, 0
			t.doubt, t.put, t.kept, t.loop, t.run = false, false, false, idle, [2]token{}
		})
	}
	// A lease is extended by whoever runs the job, and nobody is idle for as long as it lasts. It ends when he can't.
	has := s.runs(s.token) || s.ear == own && s.ans == s.token || s.back == committed || s.back == gave && s.given == s.token
	if s.job == first && (s.life != awake || !has) && !s.isOver(s.token) {
		to.do(leaseEnds, func(t *State) {
			t.job = expired
			t.over |= 1 << t.token
		})
	}
}

// ends is what the server does when a session ends.
func (m *Model) ends(t *State, n session) {
	if n == t.conn {
		t.cuts--
	}
	t.alive &^= 1 << n
	if t.taken == n {
		t.taken, t.times = 0, 0
	}
	if m.Protocol.LocksEndOneByOne {
		t.fading = n
	}
}
