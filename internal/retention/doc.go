// Package retention removes finished jobs and refreshes once they are old enough, as a chore of a running worker.
//
// It promises to be in nobody's way: batches are small, each is a transaction of its own that passes over locked rows, and it
// rests at least as long as it works. It has a goroutine of its own, not a place among what the worker does for dead ones:
// a table that has much to remove must not delay a rescue. Several workers share the work without knowing of one another.
// PENDING and RUNNING jobs are never removed: see queue.Store.Purge, which does it.
package retention
