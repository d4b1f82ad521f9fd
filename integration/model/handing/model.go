package handing

import (
	"notifyworker/integration/model/explore"
)

// Scenario is what may happen.
type Scenario struct {
	Name     string
	Unheard  bool // the notification does not reach the first worker
	Alone    bool // there is no second one
	Freezes  bool
	Dies     bool
	Cuts     int  // so often the session of its hands breaks
	Forged   int  // so many notifications are forged, to the second worker
	Reserved bool // the job was reserved by a look, and runs: whoever asks for it shall not have it
}

// Protocol has a field for each line left out or done otherwise. The zero value is the real one.
type Protocol struct {
	LooksFirst         bool // take looks, and locks then
	LetsEarly          bool // "taken" is given back when the job starts
	TakesAnybodys      bool // take does not ask whose the job is
	NeverAsks          bool // the worker does not ask what was handed to it, and was not heard of
	OverWithoutLock    bool // take_over does not get "taken"
	OverTheDead        bool // take_over does not look whether the session lives
	LooksBeforeLocking bool // it looks before it has "taken"
	AnyKey             bool // it looks for the session that the worker has now, not for that in the token
	AnyToken           bool // it does not ask for a token of what was handed over
	NobodyLooksAfter   bool
	LocksEndOneByOne   bool // PostgreSQL itself: "hands" last
}

// Model is a protocol in a scenario.
type Model struct {
	Scenario Scenario
	Protocol Protocol
}

// Start has the job committed and handed over.
func (m *Model) Start() []State {
	sc := &m.Scenario
	s := State{hands: 1, last: 1, cuts: uint8(sc.Cuts), forged: uint8(sc.Forged), looks: sc.Reserved}
	if sc.Unheard {
		s.doing = deaf
	}
	if sc.Reserved {
		s.doing = running
	}
	if sc.Alone || m.Protocol.NobodyLooksAfter || sc.Reserved {
		s.after = idle
	}
	return []State{s}
}

// Next tries everybody.
func (m *Model) Next(s *State, emit func(*State, explore.Step)) {
	to := func(l label, change func(t *State)) {
		t := *s
		change(&t)
		emit(&t, explore.Step(l))
	}
	m.mishaps(s, to)
	if s.life == awake {
		m.firstWorker(s, to)
	}
	m.secondWorker(s, to)
}

func (m *Model) firstWorker(s *State, to func(label, func(*State))) {
	if s.hands == 0 {
		to(opens, func(t *State) { t.last++; t.hands = t.last })
	}
	mine := s.job == first || m.Protocol.TakesAnybodys && s.job == second
	free := (s.taken == 0 || s.taken == s.hands) && !s.held()
	switch s.doing {
	case deaf:
		if !m.Protocol.NeverAsks {
			to(asks, func(t *State) { t.doing = knowing })
		}
	case knowing:
		switch {
		case s.hands == 0:
		case m.Protocol.LooksFirst && mine:
			to(looksOnly, func(t *State) { t.doing = looked })
		case !free: // asked again a little later
		case mine:
			to(takes, func(t *State) { t.doing, t.taken, t.by = answered, t.hands, t.hands })
		default:
			to(findsAnothers, func(t *State) { t.doing = over })
		}
	case looked:
		if s.hands != 0 && free {
			to(locksOnly, func(t *State) { t.doing, t.taken, t.by = answered, t.hands, t.hands })
		}
	case answered:
		to(hears, func(t *State) { t.doing = starting })
	case starting:
		to(starts, func(t *State) {
			t.doing = running
			if m.Protocol.LetsEarly {
				t.taken = 0
			}
		})
	case running:
		to(concludes, func(t *State) {
			t.doing, t.taken = over, 0
			if t.job == first {
				t.job = done
			}
		})
	}
}

func (m *Model) secondWorker(s *State, to func(label, func(*State))) {
	key := session(1) // in the token
	if m.Protocol.AnyKey {
		key = s.hands
	}
	lives := key != 0 && (s.hands == key || s.fading == key) || m.Protocol.OverTheDead
	look := func(then after) {
		if lives {
			to(seesItLives, func(t *State) { t.after = then })
			return
		}
		to(seesItGone, func(t *State) { t.after = idle })
	}
	switch s.after {
	case told:
		if s.job != first || s.looks && !m.Protocol.AnyToken {
			to(leaves, func(t *State) { t.after = idle })
			return
		}
		to(reads, func(t *State) { t.after = read })
	case read:
		switch {
		case m.Protocol.LooksBeforeLocking:
			look(checked)
		case m.Protocol.OverWithoutLock:
			look(sure)
		default:
			m.lockJob(s, to, locked)
		}
	case checked:
		m.lockJob(s, to, sure)
	case locked:
		look(sure)
	case sure:
		to(takesOver, func(t *State) {
			t.after = idle
			if t.job == first { // it has the row's lock, and the token is what it was
				t.job, t.after = second, runs
			}
		})
	case runs:
		to(secondConcludes, func(t *State) { t.job, t.after = done, idle })
	case idle:
		if s.forged > 0 && !m.Scenario.Alone {
			to(isTold, func(t *State) { t.forged--; t.after = told })
		}
	}
}

func (m *Model) lockJob(s *State, to func(label, func(*State)), then after) {
	if s.taken != 0 {
		to(leaves, func(t *State) { t.after = idle })
		return
	}
	to(locks, func(t *State) { t.after = then })
}

func (m *Model) mishaps(s *State, to func(label, func(*State))) {
	if s.fading != 0 {
		to(fades, func(t *State) { t.fading = 0 })
	}
	ends := func(t *State) {
		if t.taken == t.hands {
			t.taken = 0
		}
		if m.Protocol.LocksEndOneByOne {
			t.fading = t.hands
		}
		t.hands = 0
		if t.doing == answered || t.doing == looked { // the answer does not come: asked again
			t.doing = knowing
		}
	}
	if s.cuts > 0 && s.hands != 0 && s.fading == 0 && s.last < sessions {
		to(breaks, func(t *State) { t.cuts--; ends(t) })
	}
	if m.Scenario.Freezes && s.life == awake {
		to(freezes, func(t *State) { t.life = frozen })
	}
	if s.life == frozen {
		to(thaws, func(t *State) { t.life = awake })
	}
	if m.Scenario.Dies && s.life != dead && s.fading == 0 {
		to(dies, func(t *State) {
			ends(t)
			t.life, t.doing = dead, over
		})
	}
	// A lease is extended by whoever runs the job, or has taken it. It ends when he can't.
	if s.job == first && (s.life != awake || s.doing != running && s.doing != starting) {
		to(leaseEnds, func(t *State) { t.job = expired })
	}
}
