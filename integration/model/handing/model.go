package handing

import (
	"notifyworker/integration/model/explore"
)

// Scenario is what may happen.
type Scenario struct {
	Name     string
	Alone    bool // there is no second worker
	Freezes  bool
	Dies     bool
	HangsUp  bool // the first worker goes into reserve
	Cuts     int  // so often a session of its breaks, at either end first
	Forged   int  // so many notifications are forged, to either worker
	Losses   int  // so many answers of take_back are lost
	Late     bool // and the server may carry it out at any time later
	Reserved bool // the job was reserved by a look, and runs: whoever asks for it shall not have it
}

// Protocol has a field for each line left out or done otherwise. The zero value is the real one.
type Protocol struct {
	LooksFirst         bool // the listener looks, and locks then
	LetsEarly          bool // "taken" is given back when the job starts
	TakesAnybodys      bool // take_lock and take_look do not ask whose the job is
	TakesWhatIsBack    bool // nor whether it was taken back
	TakesByAnySession  bool // nor, take_lock, whether it was handed to this very session
	NeverAsks          bool // the worker does not ask what was handed to it, and was not heard of
	NeverAsksAgain     bool // nor for a job that somebody looked after
	TrustsNo           bool // nor for one that take_back has found under another token
	BacksWhatRuns      bool // nor whether it runs the job, before take_back
	BacksWhatIsAsked   bool // nor whether its listener asks for it; nor does that one ask what the loop does
	ForgetsWhatIsLost  bool // and lets its listener ask, as before, for what a take_back was about that had no answer
	LeavesToListener   bool // and does not ask later for what its listener asks for now
	BackWithoutLock    bool // take_back does not try "taken"
	BackLooksFirst     bool // and does not look again when it has it
	BackExpired        bool // nor whether the lease has ended
	BackAnyToken       bool // nor ask for the token that the loop was shown
	HungUpAtOnce       bool // who hangs up does not wait for its session's end
	HungUpNoBarrier    bool // nor for the commits under way
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

// Start has the first worker asleep, and a commit about to look for it. It may have just connected.
func (m *Model) Start() []State {
	sc := &m.Scenario
	s := State{conn: 1, alive: 1 << 1, last: 1, cuts: uint8(sc.Cuts), forged: uint8(sc.Forged), losses: uint8(sc.Losses)}
	if sc.Reserved {
		s.job, s.token, s.run = first, byLook, [2]token{byLook}
	}
	connected := s
	connected.doubt = !m.Protocol.NeverAsks
	return []State{s, connected}
}

type steps struct {
	s    *State
	emit func(*State, explore.Step)
}

func (to steps) do(l label, change func(t *State)) {
	t := *to.s
	change(&t)
	to.emit(&t, explore.Step(l))
}

// Next tries everybody.
func (m *Model) Next(s *State, emit func(*State, explore.Step)) {
	to := steps{s, emit}
	m.client(s, to)
	m.takes(s, to)
	m.takesBack(s, to)
	if s.life == awake {
		m.listener(s, to)
		m.loop(s, to)
		m.handlers(s, to)
	}
	m.secondWorker(s, to)
	m.mishaps(s, to)
}

// client commits. What it notifies reaches those who listen then.
func (m *Model) client(s *State, to steps) {
	switch s.job {
	case unwritten:
		if s.lives(1) {
			to.do(handsOver, func(t *State) { t.job, t.token = written, handed })
			return
		}
		to.do(findsNobody, func(t *State) { t.job = rescued })
	case written:
		to.do(commits, func(t *State) {
			t.job = first
			t.note = t.lives(t.conn)
			if !m.Scenario.Alone && !m.Protocol.NobodyLooksAfter && t.after == away {
				t.after = told
			}
		})
	}
}

// handlers conclude what they run. The lock is given back at some time after that.
func (m *Model) handlers(s *State, to steps) {
	for i, tok := range s.run {
		if tok == 0 {
			continue
		}
		to.do(concludes, func(t *State) {
			t.run[i] = 0
			if tok == handed {
				t.let++
			}
			if t.firsts() && t.token == tok {
				t.job, t.token = done, 0
			}
		})
	}
	if s.let > 0 && s.lives(s.conn) {
		to.do(letsGo, func(t *State) {
			t.let--
			t.unlock(t.conn)
		})
	}
}

// starts begins a handler in the first worker's process.
func (s *State) starts(t token) {
	for i := range s.run {
		if s.run[i] == 0 {
			s.run[i] = t
			return
		}
	}
}

func (s *State) unlock(n session) {
	if s.taken == n && s.times > 0 {
		if s.times--; s.times == 0 {
			s.taken = 0
		}
	}
}
