package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"notifyworker/internal/queue"
)

// abandonAfter is how long a handler may go on after its time-out before its job is concluded without it. Its slot stays
// taken: work that does not stop is still work.
const abandonAfter = 10 * time.Second

var (
	errTimeout  = errors.New("timed out")
	errDraining = errors.New("the worker is shutting down")
	errEnded    = errors.New("the handler's goroutine ended without an outcome (runtime.Goexit)")
)

// start runs a job's handler in a goroutine of its own.
func (w *Worker) start(end context.Context, j queue.Job, asked time.Time, handlers *sync.WaitGroup) *hold {
	settings := w.cfg.settings(j.Type)
	ctx, cancel := context.WithCancelCause(end)
	h := w.slots.take(j, settings, asked, true, cancel)
	handlers.Go(func() {
		defer cancel(nil)
		w.work(ctx, h)
	})
	return h
}

// giveBack returns a job that was reserved and can't be started.
func (w *Worker) giveBack(j queue.Job, asked time.Time, why error) *hold {
	h := w.slots.take(j, w.cfg.settings(j.Type), asked, false, func(error) {})
	w.finish(h, queue.Outcome{Kind: queue.Released, Err: why})
	return h
}

// handled ends a handler's goroutine. The last one of those that run has what they have all come to written.
func (w *Worker) handled(h *hold) {
	w.gathering.ended(time.Since(h.began))
	if w.slots.leave(h) == 0 {
		w.lanes.completed.flush()
	}
}

// work calls the handler and hands over what it says. All that must happen whatever the handler does is deferred: a Goexit
// runs nothing else.
func (w *Worker) work(ctx context.Context, h *hold) {
	defer w.handled(h)
	out := queue.Outcome{Kind: queue.Failed, Err: errEnded}
	defer func() {
		if v := recover(); v != nil {
			out = panicked(v, debug.Stack())
		}
		if out.Kind == queue.Failed && context.Cause(ctx) == errTimeout {
			out.Err = fmt.Errorf("%w after %v: %w", errTimeout, h.settings.Timeout, orElse(out.Err, errNoReason))
		}
		w.finish(h, out)
	}()
	if limit := h.settings.Timeout; limit > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer done()
		stubborn := time.AfterFunc(limit+abandonAfter, func() {
			w.finish(h, queue.Outcome{Kind: queue.Failed, Err: fmt.Errorf("%w after %v, and did not stop within %v when told to", errTimeout, limit, abandonAfter)})
		})
		defer stubborn.Stop()
	}
	handler := w.cfg.Handlers[h.job.Type]
	if handler == nil {
		out = queue.Outcome{Kind: queue.Permanent, Err: fmt.Errorf("unknown job type: %s", h.job.Type)}
		return
	}
	out = handler.Handle(queue.WithProgress(ctx, w.progress(h)), h.job)
}

func orElse(err, otherwise error) error {
	if err == nil {
		return otherwise
	}
	return err
}

// maxStack bounds what a panic leaves in the job's error: the start of the stack names the place.
const maxStack = 4000

func panicked(v any, stack []byte) queue.Outcome {
	if len(stack) > maxStack {
		stack = stack[:maxStack]
	}
	said := fmt.Sprint(v)
	if len(said) > maxError-maxStack-100 {
		said = said[:maxError-maxStack-100] + "…"
	}
	return queue.Outcome{Kind: queue.Failed, Err: fmt.Errorf("panic: %s\n%s", said, stack)}
}

// progress is what a handler's context carries.
func (w *Worker) progress(h *hold) queue.Progress {
	return func(ctx context.Context, result json.RawMessage) error {
		if w.slots.isLost(h) {
			return queue.ErrLost
		}
		if err := checkResult(result); err != nil {
			return fmt.Errorf("report progress of job %d: %w", h.job.ID, err)
		}
		err := w.store.Progress(ctx, h.job.ID, h.job.Token, result)
		if errors.Is(err, queue.ErrLost) {
			w.slots.lose(h)
		}
		return err
	}
}

// finish hands one outcome of a reservation on, the first that is offered. What comes of a lost reservation is dropped.
func (w *Worker) finish(h *hold, out queue.Outcome) {
	first, alive, recalled := w.slots.hand(h)
	switch {
	case !first:
	case !alive:
		if out.Kind == queue.Concluded { // by the handler's own transaction, before the loss was noticed
			w.concluded(h, out, outcomeOf(out.Kind), 0)
			return
		}
		w.concluded(h, out, outcomeLost, 0)
	case out.Kind == queue.Concluded || out.Kind == queue.Lost:
		w.settle(h, out, outcomeOf(out.Kind), 0)
	default:
		if recalled && (out.Kind == queue.Failed || out.Kind == queue.Refused) {
			out.Kind = queue.Released // because we told it to stop
		}
		w.lanes.putFirst(&conclusion{hold: h, out: checked(out)})
	}
}

// settle ends a reservation that was handed over.
func (w *Worker) settle(h *hold, out queue.Outcome, outcome string, mergedInto int64) {
	w.concluded(h, out, outcome, mergedInto)
	w.slots.settle(h)
}

// concluded counts and logs what became of a reservation.
func (w *Worker) concluded(h *hold, out queue.Outcome, outcome string, mergedInto int64) {
	took := time.Since(h.began)
	w.stats.concluded(h.job.Type, outcome, took)
	e := w.log.Info().Int64("job_id", h.job.ID).Str("type", h.job.Type).Str("catalog", h.job.CatalogID).Int("attempt", h.job.Attempt).
		Str("outcome", outcome).Dur("took", took)
	if h.job.TraceID != "" {
		e = e.Str("trace_id", h.job.TraceID)
	}
	if mergedInto != 0 {
		e = e.Int64("merged_into", mergedInto)
	}
	if out.Note != "" {
		e = e.Str("note", out.Note)
	}
	if out.Err != nil {
		e = e.Stringer("cause", out.Kind).Str("reason", bounded(out.Err.Error(), maxLogged))
	}
	e.Msg("job concluded")
}
