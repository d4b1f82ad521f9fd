// Package handing models a job that a commit hands to a worker: how the worker's listener takes it on the session that has heard of it,
// how its loop takes it back when that did not come about, how another worker takes it over, and what becomes of it when the first one
// freezes, dies, hangs up or loses its session. It stands for triggers/24_hand_over.sql, for internal/queue/hands.go with its statements
// (internal/queue/sql/take_lock.sql, take_look.sql, mine.sql, hung_up.sql), and for handed.go, handovers.go and takeback.go of
// internal/worker. See docs/model.md.
package handing
