package handing

import (
	"notifyworker/integration/model/explore"
)

type label uint8

const (
	opens label = iota
	asks
	takes
	looksOnly
	locksOnly
	findsAnothers
	hears
	starts
	concludes
	isTold
	reads
	leaves
	locks
	seesItLives
	seesItGone
	takesOver
	secondConcludes
	breaks
	fades
	freezes
	thaws
	dies
	leaseEnds
)

var said = [...]string{
	opens:           "worker 1 opens a new session for its hands",
	asks:            "worker 1 asks what is RUNNING for it",
	takes:           "the server locks the job for worker 1, and finds that it is its own",
	looksOnly:       "the server finds that the job is worker 1's",
	locksOnly:       "the server locks the job for worker 1",
	findsAnothers:   "worker 1 finds that the job is not its own",
	hears:           "worker 1 has the answer",
	starts:          "worker 1 starts the job",
	concludes:       "worker 1 concludes the job, and gives back its lock",
	isTold:          "worker 2 is told of the job by a forged notification",
	reads:           "worker 2 sees that the job was handed to worker 1",
	leaves:          "worker 2 leaves the job alone",
	locks:           "worker 2 locks the job",
	seesItLives:     "worker 2 sees that worker 1's session lives",
	seesItGone:      "worker 2 sees that worker 1's session is gone, and leaves the job to its lease",
	takesOver:       "worker 2 gives the job a token of its own, if it is still worker 1's, commits, and starts it",
	secondConcludes: "worker 2 concludes the job",
	breaks:          "the session of worker 1's hands breaks",
	fades:           "the last lock of that session ends",
	freezes:         "worker 1 freezes",
	thaws:           "worker 1 thaws",
	dies:            "worker 1 dies",
	leaseEnds:       "the lease ends",
}

// Wrong checks that no two run the job while its lease is good, and that nobody waits for the lease who need not.
func (m *Model) Wrong(s *State) string {
	if s.doing == running && s.after == runs {
		return "both run the job, and no lease has ended"
	}
	if s.job != first || s.looks || s.after != idle || s.doing == running || s.doing == starting {
		return ""
	}
	goesOn := s.life == awake && (s.doing != deaf || !m.Protocol.NeverAsks)
	// Whoever has frozen or died when the server had locked the job for it has it, like one that it had reserved.
	had := s.taken != 0 || s.hands != 1 || s.by != 0
	if !goesOn && !had && !m.Scenario.Alone {
		return "the job lies until its lease ends, though the session of its worker lives and has not taken it"
	}
	if s.life == awake && !goesOn {
		return "the job lies until its lease ends, though its worker lives"
	}
	return ""
}

// Tell is a sentence for each step. The last one says what is wrong.
func (m *Model) Tell(states []State, steps []explore.Step) (words []string) {
	for _, step := range steps {
		words = append(words, said[step])
	}
	return append(words, "so "+m.Wrong(&states[len(states)-1]))
}
