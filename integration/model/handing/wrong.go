package handing

import "notifyworker/integration/model/explore"

// Wrong checks that a job is run by one handler, under the token that its row has, while its lease is good; and that nobody waits for
// the lease who need not.
func (m *Model) Wrong(s *State) string {
	good := 0
	for _, t := range s.run {
		if t != 0 && !s.isOver(t) {
			good++
		}
	}
	switch {
	case good > 0 && s.after == runs:
		return "both run the job, and no lease has ended"
	case good > 1:
		return "worker 1 runs the job twice at once, and no lease has ended"
	case s.after == runs && s.job != second && s.taken != others:
		return "worker 2 runs the job under a token that it has no more, and no lease has ended"
	}
	for _, t := range s.run {
		if t != 0 && !s.isOver(t) && (s.token != t || s.job != first) {
			return "worker 1 runs the job under a token that it has no more, and no lease has ended"
		}
	}
	return m.lies(s)
}

func (m *Model) lies(s *State) string {
	if s.job != first || s.running() {
		return ""
	}
	if s.life == awake {
		if m.goesOn(s) {
			return ""
		}
		return "the job lies until its lease ends, though its worker lives"
	}
	// Whoever has frozen or died when the server had locked the job for it has it, like one that it had reserved.
	if s.token == handed && s.after == away && !s.by && s.lives(1) && !m.Scenario.Alone {
		return "the job lies until its lease ends, though the session of its worker lives and has not taken it"
	}
	return ""
}

// goesOn says whether a worker that lives will still do something about the job.
func (m *Model) goesOn(s *State) bool {
	comes := s.hung == listens && (s.conn == 0 || !s.lives(s.conn)) && !m.Protocol.NeverAsks
	return comes || s.conn != 0 && s.note || s.ear != quiet || s.doubt || s.put || s.loop != idle ||
		s.hung == closed || s.hung == barrier
}

// Tell is a sentence for each step. The last one says what is wrong.
func (m *Model) Tell(states []State, steps []explore.Step) (words []string) {
	for _, step := range steps {
		words = append(words, said[step])
	}
	return append(words, "so "+m.Wrong(&states[len(states)-1]))
}
