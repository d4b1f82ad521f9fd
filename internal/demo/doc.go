// Package demo shows notifyworker at work within a minute, on a PostgreSQL of its own: two workers woken by notifications
// and, on catalogs of its own, one that polls every second, both fed with tariff updates, measured in the same run.
//
// It promises that what it shows is measured and that its verdict is asked of the database: every published tariff has the
// price that the rules give, and every product id that was enqueued was recomputed after its commit. It leaves nothing
// running, however it ends: the workers are real processes that end with the pipe to this one, the server has a guard.
//
// Start reading at demo.go (the run from start to verdict), then sets.go (the two that are compared), measure.go (what is
// shown) and verdict.go (what must be true at the end).
package demo
