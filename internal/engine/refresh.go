package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"notifyworker/internal/queue"
)

// refresh is one that this process holds.
type refresh struct {
	Refresh
	token     string
	taken     bool // over from another process, or after a hand-back
	takeovers int  // after which it was begun, without progress; with this one once it is counted
	began     time.Time

	// Only the goroutine that runs it.
	counted bool // among takeovers
	ids     []json.RawMessage
	listed  bool // ids is all there is to do
	done    int  // so many of ids are dealt with
	n       int64
	failed  int
	parts   int // calls for parts of chunks so far

	// Under the engine's mu.
	leaseUntil time.Time               // by our clock, counted from before the database was asked
	cause      error                   // why it is ours no more
	cancel     context.CancelCauseFunc // of what runs; nil while it is queued
}

// run runs a refresh to its end. Any error but errGivenUp means that it was not released by us: lost, or to be handed back.
func (e *Engine) run(ctx context.Context, r *refresh, stop <-chan struct{}) error {
	if r.taken {
		if err := e.begin(ctx, r, stop); err != nil {
			return err
		}
	}
	if r.takeovers > maxTakeovers {
		return e.giveUp(ctx, r, stop, fmt.Errorf("it was taken over %d times without progress: it may be what its workers died of", r.takeovers))
	}
	if !r.listed && e.cfg.Products != nil {
		if err := e.list(ctx, r, stop); err != nil || !r.listed {
			return err
		}
	}
	if !r.listed {
		return e.settle(ctx, r, stop, Chunk{Refresh: r.Refresh}, len(r.ids), true)
	}
	if r.done >= len(r.ids) { // its process died between the last chunk and the release, or the catalog is empty
		return e.release(ctx, r, stop, 0, nil, nil, r.done)
	}
	for number := r.done / e.cfg.Chunk; r.done < len(r.ids); number++ {
		end := min(r.done+e.cfg.Chunk, len(r.ids))
		c := Chunk{Refresh: r.Refresh, Number: number, Offset: r.done, ProductIDs: r.ids[r.done:end]}
		if err := e.settle(ctx, r, stop, c, end, end == len(r.ids)); err != nil {
			return err
		}
	}
	return nil
}

// begin counts the run of a refresh that was taken over, before anything of it can be what this process dies of.
func (e *Engine) begin(ctx context.Context, r *refresh, stop <-chan struct{}) error {
	err := e.persist(ctx, r, stop, "begin", func(ctx context.Context) error { return e.store.begin(ctx, r, r.takeovers+1) })
	if err == nil {
		r.takeovers++
		r.counted = true
	}
	return err
}

// errGivenUp ends the run of a refresh that was released with its rest in the dead letter.
var errGivenUp = errors.New("given up")

// list has a full refresh's catalog listed and written down. When it can't be, the refresh is given up and stays not listed.
func (e *Engine) list(ctx context.Context, r *refresh, stop <-chan struct{}) error {
	since := time.Now()
	for tries := 1; ; tries++ {
		ids, err := e.cfg.Products.List(ctx, r.TenantID, r.CatalogID)
		if err == nil {
			return e.persist(ctx, r, stop, "list", func(ctx context.Context) error {
				all, err := e.store.list(ctx, r, ids)
				if err == nil {
					r.ids, r.listed = all, true
				}
				return err
			})
		}
		if err := e.ours(ctx, r); err != nil {
			return err
		}
		kind, delay := classify(err)
		if (kind == data && tries >= e.cfg.Patience.Tries) || time.Since(since) > e.cfg.Patience.OutageFor {
			return e.giveUp(ctx, r, stop, err)
		}
		e.log(r).Warn().Err(err).Int("tries", tries).Msg("catalog not listed, trying again")
		if kind == later {
			delay = e.cfg.Patience.notNow(delay, tries)
		} else {
			delay = e.cfg.Patience.backoff(tries)
		}
		if err := pause(ctx, stop, delay); err != nil {
			return err
		}
	}
}

// release ends a refresh. givenUp: why all after the first done ids has failed, nil when it has come to its end.
func (e *Engine) release(ctx context.Context, r *refresh, stop <-chan struct{}, n int64, failed []FailedID, givenUp error, done int) error {
	var out released
	tries := 0
	err := e.persist(ctx, r, stop, "release", func(ctx context.Context) (err error) {
		tries++
		out, err = e.store.release(ctx, r, n, failed, givenUp, done)
		return err
	})
	if errors.Is(err, ErrRefreshLost) && tries > 1 && e.store.ended(ctx, r) {
		out, err = released{waiters: 1}, nil
	}
	if err == nil {
		r.n += n
		r.failed += len(failed)
		if givenUp != nil {
			r.failed += len(r.ids) - done
		}
		e.released(r, out, givenUp)
	}
	return err
}

func (e *Engine) giveUp(ctx context.Context, r *refresh, stop <-chan struct{}, why error) error {
	return e.release(ctx, r, stop, 0, nil, why, r.done)
}

// released counts and logs the end of a refresh, and has those woken who were refused because of it. The release itself has
// woken who was waiting; a job whose requeue was still under way is what the later looks are for.
func (e *Engine) released(r *refresh, out released, givenUp error) {
	e.stats.released.Add(1)
	e.stats.failedIDs.Add(int64(r.failed))
	if out.waiters > 0 {
		e.waker.add(catalogKey{r.TenantID, r.CatalogID})
	}
	ev := e.log(r).Info()
	if r.failed > 0 || givenUp != nil {
		ev = e.log(r).Warn().Int("failed", r.failed).Int64("dead_letter", out.deadLetterID).AnErr("given_up", givenUp)
	}
	ev.Int("products", len(r.ids)).Int64("recomputed", r.n).Dur("took", time.Since(r.began)).Msg("refresh released")
}

// persist runs a write of ours until it succeeds, the refresh is lost, or the stop comes while the database is out of order.
func (e *Engine) persist(ctx context.Context, r *refresh, stop <-chan struct{}, what string, write func(context.Context) error) error {
	for tries := 1; ; tries++ {
		if err := e.ours(ctx, r); err != nil {
			return err
		}
		// A write that has begun is not cut off by the end of the drain: it is a moment long.
		err := write(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrRefreshLost):
			return err
		}
		e.log(r).Warn().Err(err).Int("tries", tries).Str("write", what).Str("advice", queue.Advice(err)).Msg("refresh not written, trying again")
		if err := pause(ctx, stop, e.cfg.Patience.backoff(tries)); err != nil {
			return err
		}
	}
}

// ours says whether the refresh may be worked on: not lost, its lease not over by our own clock, not cut off.
func (e *Engine) ours(ctx context.Context, r *refresh) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.cause != nil {
		return r.cause
	}
	if !time.Now().Before(r.leaseUntil) {
		return errLeaseOver
	}
	return nil
}

// pause waits for d, the stop, or the end of ctx.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
		return errHandBack
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
