package worker

import (
	"context"
	"fmt"
	"time"

	"notifyworker/internal/queue"
)

const (
	stopGrace  = time.Second     // for a handler to end after its context did
	lastWrites = 3 * time.Second // for the last conclusions
)

// drain lets what runs finish, gives back what is left, and waits for the last conclusions to be written. It returns within
// DrainTimeout and 4 s after the stop, whatever the handlers and the database do.
func (w *Worker) drain(end context.Context, began time.Time) error {
	w.stats.turned(Draining)
	running, pending := w.slots.counts()
	w.log.Info().Int("running", running).Int("unwritten", pending).Dur("timeout", w.cfg.DrainTimeout).Msg("draining")
	idle := func() bool { running, _ := w.slots.counts(); return running == 0 }
	if !w.await(end, w.cfg.DrainTimeout-time.Since(began), idle) && end.Err() == nil {
		n := w.slots.recall(errDraining)
		w.log.Warn().Int("jobs", n).Msg("drain time is over: handlers are told to stop, their jobs go back")
		if !w.await(end, stopGrace, idle) {
			for _, h := range w.slots.working() {
				w.finish(h, queue.Outcome{Kind: queue.Released, Err: errDraining})
			}
		}
	}
	w.await(end, lastWrites, func() bool { _, pending := w.slots.counts(); return pending == 0 })

	running, pending = w.slots.counts()
	w.log.Info().Int("running", running).Int("unwritten", pending).Dur("took", time.Since(began)).Msg("drained")
	switch {
	case end.Err() != nil && running+pending > 0:
		return fmt.Errorf("worker: ended at once: %d jobs are left to their leases", running+pending)
	case pending > 0:
		return fmt.Errorf("worker: the database did not take the outcome of %d jobs: they are left to their leases", pending)
	case running > 0:
		return fmt.Errorf("worker: %d handlers did not stop when told to; their jobs were given back", running)
	}
	return nil
}

// await waits until done, at most so long.
func (w *Worker) await(end context.Context, limit time.Duration, done func() bool) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	for !done() {
		select {
		case <-w.slots.freed:
		case <-t.C:
			return done()
		case <-end.Done():
			return done()
		}
	}
	return true
}
