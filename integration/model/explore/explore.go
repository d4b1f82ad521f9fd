package explore

import (
	"errors"
	"hash/maphash"
	"slices"
)

// Step names one thing that can happen in a state; what it means is the model's own affair.
type Step uint32

// Model is what can happen and what must not.
type Model[S comparable] interface {
	Start() []S
	// Next calls emit for each state that can follow s, always in the same order. emit copies what it is given.
	Next(s *S, emit func(next *S, step Step))
	// Wrong says what is wrong with s, in words, or "".
	Wrong(s *S) string
	// Tell says in words what happened on a way that Next allows, states[i] leads to states[i+1] by steps[i].
	Tell(states []S, steps []Step) []string
}

// ErrBound says that a model has more states than were allowed: nothing is known of those that were not seen.
var ErrBound = errors.New("more states than the bound")

// Result is what an exploration has found.
type Result struct {
	States int      // seen, all different
	Steps  int      // followed, also to states seen before
	Depth  int      // of the deepest state: so many steps from a start
	Wrong  string   // what must not be and yet can; "" when all is well
	Trace  []string // how it comes to that, in words; empty when it is wrong from the start
}

// Run looks at every state that m can reach, up to bound of them, and stops at the first that is wrong. It returns
// ErrBound, and what was found so far, when there are more.
func Run[S comparable](m Model[S], bound int) (Result, error) {
	e := explorer[S]{seed: maphash.MakeSeed(), table: make([]int32, 1<<12)}
	for _, s := range m.Start() {
		e.add(&s, -1, 0)
	}
	var r Result
	levelEnd := len(e.seen)
	for i := 0; i < len(e.seen); i++ {
		if i == levelEnd {
			r.Depth++
			levelEnd = len(e.seen)
		}
		r.States = len(e.seen)
		s := e.seen[i].state // a copy: the slice moves as it grows
		if r.Wrong = m.Wrong(&s); r.Wrong != "" {
			r.Trace = e.trace(m, i)
			return r, nil
		}
		if len(e.seen) > bound {
			return r, ErrBound
		}
		m.Next(&s, func(next *S, step Step) {
			r.Steps++
			e.add(next, int32(i), step)
		})
	}
	return r, nil
}

// explorer is a set of states in the order in which they were found: an open-addressed table of places in seen, so that
// each state is kept once.
type explorer[S comparable] struct {
	seed  maphash.Seed
	seen  []node[S]
	table []int32 // place in seen plus one; 0: free
}

type node[S comparable] struct {
	state S
	from  int32 // place in seen; -1 for a start
	step  Step
}

func (e *explorer[S]) add(s *S, from int32, step Step) {
	if len(e.seen)*2 >= len(e.table) {
		e.grow()
	}
	at := e.place(e.table, s)
	if e.table[at] != 0 {
		return
	}
	e.seen = append(e.seen, node[S]{*s, from, step})
	e.table[at] = int32(len(e.seen))
}

// place is where s is in the table, or the free place where it would be.
func (e *explorer[S]) place(table []int32, s *S) int {
	mask := len(table) - 1
	at := int(maphash.Comparable(e.seed, *s)) & mask
	for table[at] != 0 && e.seen[table[at]-1].state != *s {
		at = (at + 1) & mask
	}
	return at
}

func (e *explorer[S]) grow() {
	table := make([]int32, 2*len(e.table))
	for i := range e.seen {
		table[e.place(table, &e.seen[i].state)] = int32(i + 1)
	}
	e.table = table
}

// trace tells the way to the state at place i.
func (e *explorer[S]) trace(m Model[S], i int) []string {
	var states []S
	var steps []Step
	for ; e.seen[i].from >= 0; i = int(e.seen[i].from) {
		states, steps = append(states, e.seen[i].state), append(steps, e.seen[i].step)
	}
	states = append(states, e.seen[i].state)
	slices.Reverse(states)
	slices.Reverse(steps)
	return m.Tell(states, steps)
}
