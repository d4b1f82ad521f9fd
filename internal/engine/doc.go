// Package engine is the recompute engine: it admits price refreshes or refuses them, and runs those it has accepted.
//
// Admission and the job's completion are one commit (admit_refresh in triggers/), so what is accepted is durable: a row of
// refreshes, which another process takes over when this one dies. While it is ACTIVE no other refresh touches the same
// articles of the catalog. It runs in chunks; what a chunk means is the user's (Recomputer: a SQL function or an HTTP
// endpoint). Its release frees the products, wakes who was refused, and leaves what could not be recomputed as one dead letter.
//
// A chunk may be recomputed more than once: after a failure, and by whoever takes over from a dead process. So the
// recomputation must be idempotent, as the computation of a price from its inputs is.
//
// Start at engine.go, then submit.go (the way in), run.go (the goroutines), refresh.go and settle.go (a refresh, a chunk), split.go (a chunk that fails).
package engine
