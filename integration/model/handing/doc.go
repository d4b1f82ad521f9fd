// Package handing models a job that a commit has handed to a worker: how the worker takes it, how another one takes it over, and
// what becomes of it when the first one freezes, dies or loses its session. It stands for triggers/24_hand_over.sql, for
// internal/queue/hands.go and for internal/worker/handed.go. See docs/model.md.
package handing
