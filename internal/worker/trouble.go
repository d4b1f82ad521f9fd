package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"notifyworker/internal/queue"
)

const (
	troubleFirst  = 20 * time.Millisecond
	troubleCap    = 2 * time.Second // an outage that ends is noticed within that
	troubleSlow   = 5 * time.Second // between tries of what only an operator can repair
	troubleStrict = 50 * time.Millisecond
)

// trouble is the memory of one kind of call: how often it has failed in a row, and how it last ended.
type trouble struct {
	fails int
	last  string
}

// changed takes note of how a call ended, and says whether that is worth a line: the first failure, one of another kind, and
// the first success after failures.
func (t *trouble) changed(err error) bool {
	if err == nil {
		had := t.fails > 0
		*t = trouble{}
		return had
	}
	t.fails++
	kind := "for good: " + err.Error()
	if retryable(err) {
		kind = "for now" // the texts of an outage differ from try to try
	}
	had := t.last
	t.last = kind
	return had != kind
}

// delay is how long to wait before the next try, counted from when the failed one began.
func (t *trouble) delay(err error, began time.Time) time.Duration {
	d := troubleSlow
	if !queue.SetupProblem(err) {
		d = growing(troubleFirst, troubleCap, t.fails-1)
	}
	return max(time.Millisecond, d-time.Since(began))
}

// growing doubles first n times, up to a cap, and spreads the result over its upper half.
func growing(first, ceiling time.Duration, n int) time.Duration {
	d := first
	for range n {
		if d *= 2; d >= ceiling {
			break
		}
	}
	d = min(d, ceiling)
	return d/2 + rand.N(d/2+1)
}

func retryable(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || queue.Retryable(err)
}

// logTrouble says that a call fails, or works again, in words that tell an operator whether to act.
func (w *Worker) logTrouble(err error, doing string) {
	switch {
	case err == nil:
		w.log.Info().Str("doing", doing).Msg("the database answers again")
	case queue.SetupProblem(err):
		w.log.Error().Str("doing", doing).Err(err).Str("advice", queue.Advice(err)).
			Msg("the database refuses, and trying again won't help until somebody repairs the cause: trying again slowly")
	default:
		e := w.log.Warn().Str("doing", doing).Err(err)
		if advice := queue.Advice(err); advice != "" {
			e = e.Str("advice", advice)
		}
		e.Msg("the database does not answer as it should: trying again")
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
