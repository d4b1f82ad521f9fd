package worker

import (
	"context"
	"time"

	"notifyworker/internal/listen"
)

// backClock holds how long until the next look back. It has room for one: the look that follows tells the next.
type backClock chan time.Duration

func (c backClock) in(d time.Duration) {
	select {
	case c <- d:
	default:
	}
}

// lookBack looks, when it is time, for what the loop's looks don't reach, until the stop. It can take seconds, which the loop
// must not wait for.
func (w *Worker) lookBack(ctx context.Context) {
	var looking trouble
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-w.back:
			if !sleep(ctx, d) {
				return
			}
		}
		sctx, done := context.WithTimeout(ctx, statementTimeout)
		found, err := w.store.LookBack(sctx)
		done()
		if ctx.Err() == nil && looking.changed(err) {
			w.logTrouble(err, "look for jobs that have been due for long")
		}
		if found {
			w.cfg.Bell.Ring(listen.Nudged)
		}
	}
}
