package worker

import (
	"context"
	"slices"
	"time"

	"notifyworker/internal/queue"
)

// heartbeat extends the leases of all that is held, each at a quarter of its length, in one statement for all that are about
// due. When that fails for so long that a lease must be over, its handler is told: another worker may have the job.
func (w *Worker) heartbeat(ctx context.Context) {
	tick := w.shortestLease() / 4
	t := time.NewTimer(tick)
	defer t.Stop()
	var trouble trouble
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		next := tick
		if due := w.slots.dueForExtension(tick / 2); len(due) > 0 {
			start := time.Now()
			// Shorter than what is left of the lease: the check below must come in time.
			sctx, done := context.WithTimeout(ctx, 2*tick)
			gone, busy, err := w.store.Extend(sctx, held(due))
			done()
			if err == nil {
				w.slots.extend(due, gone, busy, start)
			}
			if ctx.Err() == nil && trouble.changed(err) {
				w.logTrouble(err, "extend leases")
			}
			if err != nil || len(busy) > 0 {
				next = tick / 4
			}
		}
		if n := w.slots.expire(); n > 0 {
			w.log.Warn().Int("jobs", n).Msg("leases could not be extended in time: their handlers are told to stop")
		}
		t.Reset(next)
	}
}

func (w *Worker) shortestLease() time.Duration {
	lease := w.cfg.settings("").Lease
	for name := range w.cfg.Types {
		lease = min(lease, w.cfg.settings(name).Lease)
	}
	return lease
}

func held(holds []*hold) []queue.Held {
	all := make([]queue.Held, len(holds))
	for i, h := range holds {
		all[i] = queue.Held{ID: h.job.ID, Token: h.job.Token, Type: h.job.Type}
	}
	return all
}

// dueForExtension returns the holds that are due within slack, or were.
func (s *slots) dueForExtension(slack time.Duration) []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*hold
	now := time.Now()
	for _, h := range s.held {
		if !now.Before(h.extended.Add(h.lease/4 - slack)) {
			due = append(due, h)
		}
	}
	return due
}

// extend takes note of a heartbeat that was sent at start and answered that some jobs are gone, and that somebody holds the rows of
// some. Nobody else can take those meanwhile, but can from the moment on when they are let go: so they are due for extension
// still. Answers are for the holds that were asked for: by now another reservation may go by the same id.
func (s *slots) extend(asked []*hold, gone, busy []int64, start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range asked {
		if slices.Contains(gone, h.job.ID) {
			s.loseLocked(h)
			continue
		}
		h.until = start.Add(h.lease)
		if !slices.Contains(busy, h.job.ID) {
			h.extended = start
		}
	}
}

// expire loses the holds whose lease must be over by this process's own clock, and says how many those were.
func (s *slots) expire() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	now := time.Now()
	for _, h := range s.held {
		if h.state == working && !now.Before(h.until) {
			s.loseLocked(h)
			n++
		}
	}
	return n
}
