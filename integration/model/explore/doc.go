// Package explore is a small explicit-state model checker: breadth first through every state that a model can reach, so
// that the counterexample it finds is one of the shortest.
//
// It knows nothing of what is modelled. A state is a comparable value; a model says what can happen in a state and what
// must never be. See the packages locks and waking for the two models, and docs/model.md for what they show.
package explore
