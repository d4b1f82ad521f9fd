// Package observe shows from outside how a worker does: /livez (its loop lives), /readyz (jobs are started at once, or why
// not, in words) and /metrics (for Prometheus).
//
// It promises to be in nobody's way: at most one question at a time goes to the database, each is bounded and its answer is
// kept for some seconds; what the process itself knows is told even if the database does not answer; labels are bounded, and
// ids are never labels. It changes nothing, and nobody needs it to work.
//
// Start reading at observer.go, then health.go (readiness), process.go and database.go (metrics), pinned.go (the warning that
// names who keeps vacuum from its work).
package observe
