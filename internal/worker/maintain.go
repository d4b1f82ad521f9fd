package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

const (
	rescueLimit  = 100
	rescueSpread = 250 * time.Millisecond // workers that know of the same lease don't all rush
	rescueGap    = 500 * time.Millisecond // between two rescues for leases: one whose row is locked stays overdue
)

// leaseClock remembers when the next lease known to the loop ends. A single time: the look that follows a rescue tells the
// one after it.
type leaseClock struct {
	soonest
	last time.Time // when a lease was last looked after
}

// within takes note that a lease ends in d, unless an earlier one is known.
func (c *leaseClock) within(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(d + time.Millisecond + rand.N(rescueSpread))
	if earliest := c.last.Add(rescueGap); at.Before(earliest) {
		at = earliest
	}
	c.keep(at)
}

// done forgets the lease that was looked after.
func (c *leaseClock) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.last = time.Time{}, time.Now()
}

// maintain picks up what dead workers left, when a lease may have ended and at each sweep, until the stop.
func (w *Worker) maintain(ctx context.Context) {
	sweep := time.NewTimer(spread(w.cfg.SweepEvery))
	defer sweep.Stop()
	lease := time.NewTimer(w.leases.wait())
	defer lease.Stop()
	var rescuing, sweeping trouble
	for {
		swept := false
		select {
		case <-ctx.Done():
			return
		case <-w.leases.poke:
			lease.Reset(w.leases.wait())
			continue
		case <-lease.C:
			w.stats.leaseEnded()
		case <-sweep.C:
			swept = true
		}
		rescued, err := w.rescue(ctx, w.store.Rescue)
		if ctx.Err() == nil && rescuing.changed(err) {
			w.logTrouble(err, "rescue jobs of dead workers")
		}
		if swept {
			err := w.sweep(ctx)
			if ctx.Err() == nil && sweeping.changed(err) {
				w.logTrouble(err, "sweep")
			}
		}
		for _, also := range w.cfg.Maintain {
			if ctx.Err() == nil {
				also(ctx)
			}
		}
		if swept {
			sweep.Reset(spread(w.cfg.SweepEvery))
		} else {
			w.leases.done()
		}
		if !swept || rescued > 0 {
			w.cfg.Bell.Ring(listen.Nudged) // the look tells when the next lease ends
		}
		lease.Reset(w.leases.wait())
	}
}

func spread(d time.Duration) time.Duration { return d - rand.N(d/10+1) }

// maintainAll does what maintain leaves where it would take long, as nothing else may wait for it, until the stop.
func (w *Worker) maintainAll(ctx context.Context) {
	for rescuing := (trouble{}); sleep(ctx, spread(w.cfg.SweepEvery)); {
		rescued, err := w.rescue(ctx, w.store.RescueAll)
		if ctx.Err() == nil && rescuing.changed(err) {
			w.logTrouble(err, "rescue jobs that dead workers left long ago")
		}
		if rescued > 0 {
			w.cfg.Bell.Ring(listen.Nudged)
		}
		for _, also := range w.cfg.MaintainAll {
			if ctx.Err() == nil {
				also(ctx)
			}
		}
	}
}

// rescue returns the jobs of dead workers by one of the store's two ways, and says how many it met.
func (w *Worker) rescue(ctx context.Context, by func(context.Context, int) ([]queue.Rescued, error)) (int, error) {
	for total := 0; ; {
		sctx, done := context.WithTimeout(ctx, statementTimeout)
		found, err := by(sctx, rescueLimit)
		done()
		total += len(found)
		for _, r := range found {
			w.stats.rescued()
			w.log.Warn().Int64("job_id", r.ID).Str("type", r.Type).Str("outcome", string(r.Verdict)).Str("from_worker", r.WorkerID).
				Msg("job rescued: its worker stopped extending the lease")
		}
		if len(found) < rescueLimit {
			return total, err // an error of some jobs says nothing of the others: a full hundred was rescued beside them
		}
	}
}

func (w *Worker) sweep(ctx context.Context) error {
	sctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	report, err := w.store.Sweep(sctx)
	if err != nil {
		return err
	}
	w.stats.swept(int(report.Repaired))
	if report.Repaired > 0 {
		w.log.Warn().Int("additions", int(report.Repaired)).Msg("additions without a waiting job were repaired: somebody deletes or changes waiting jobs by hand")
		w.cfg.Bell.Ring(listen.Nudged)
	}
	return nil
}
