package worker

import (
	"context"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// behind looks for what the loop's looks don't reach, when the clock says so, until the stop. The loop must not wait for that,
// nor may the looks that take milliseconds wait for those that take seconds: each kind has its goroutine.
func (w *Worker) behind(ctx context.Context, clock *soonest, look func(context.Context) (queue.Behind, error), doing string) {
	var looking trouble
	alarm := time.NewTimer(clock.wait())
	defer alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.poke:
			alarm.Reset(clock.wait())
			continue
		case <-alarm.C:
		}
		clock.passed()
		sctx, done := context.WithTimeout(ctx, statementTimeout)
		found, err := look(sctx)
		done()
		if ctx.Err() == nil && looking.changed(err) {
			w.logTrouble(err, doing)
		}
		if !found.Lease.IsZero() {
			w.leases.within(max(0, time.Until(found.Lease)))
		}
		if found.Job {
			w.cfg.Bell.Ring(listen.Nudged)
		}
		clock.by(found.Again)
		alarm.Reset(clock.wait())
	}
}
