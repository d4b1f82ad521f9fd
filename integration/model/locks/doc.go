// Package locks models the protocol of triggers/: who may touch a catalog's waiting job, and how. docs/model.md says what is
// modelled, what is not, and what it shows.
//
// state.go, visible.go, lock.go and commit.go are PostgreSQL; client.go, enqueue.go, reserve.go and requeue.go are the
// programs, a function of triggers/ each, statement by statement; wrong.go and waits.go are what must hold. A field of
// Protocol leaves out one line of them.
package locks
