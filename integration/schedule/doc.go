// Package schedule plays what several sessions do at once, in every order of their steps.
//
// A session is a connection with named steps; a schedule is one order of all steps. Step follows step: the next one begins
// when all that runs has ended or waits for a lock. Who waits is read from pg_locks, never guessed by a clock; the steps of
// a session that waits are put off until it goes on. So the outcome of a schedule is the protocol's, not the machine's.
//
// It knows nothing of jobs: what must hold after each step is the caller's. Start reading at Play.
package schedule
