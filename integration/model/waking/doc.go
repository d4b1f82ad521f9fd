// Package waking models how workers fall asleep and are woken: the wish to be told, the barrier, the look before sleep, and
// what a commit does. It stands for triggers/25_notify.sql and for the loop of internal/worker. See docs/model.md.
package waking
