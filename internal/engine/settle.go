package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settle deals with one chunk: recomputes it, tries again what fails, and writes the progress, or the release when it is
// the last. done is how many ids are dealt with afterwards. It returns errGivenUp when the rest of the refresh is in the
// dead letter; any other error as run.
func (e *Engine) settle(ctx context.Context, r *refresh, stop <-chan struct{}, c Chunk, done int, last bool) error {
	select {
	case <-stop:
		return errHandBack
	default:
	}
	var (
		p        = e.cfg.Patience
		failures int // of any kind but later
		dataErrs int
		troubled time.Time // since when it fails
		told     time.Time // since when it says "not now"
		tellings int       // how often it has
	)
	for {
		if err := e.ours(ctx, r); err != nil {
			return err
		}
		out, saved, err := e.attempt(ctx, r, c, done, last)
		if err == nil {
			return e.advance(ctx, r, stop, done, last, out, saved)
		}
		if errors.Is(err, ErrRefreshLost) {
			if failures > 0 && last && e.store.ended(ctx, r) {
				return e.advance(ctx, r, stop, done, last, written{n: int64(len(c.ProductIDs)), released: released{waiters: 1}}, true)
			}
			return err
		}
		if err := e.ours(ctx, r); err != nil { // the error is that we were cut off
			return err
		}
		kind, delay := classify(err)
		now := time.Now()
		if kind == later {
			if told.IsZero() {
				told = now
			} else if now.Sub(told) > p.LaterFor {
				return e.abandon(ctx, r, stop, fmt.Errorf("it said \"not now\" for %v: %w", p.LaterFor, err))
			}
			tellings++
			delay = p.notNow(delay, tellings)
		} else {
			failures++
			if troubled.IsZero() {
				troubled = now
			}
			delay = p.backoff(failures)
		}
		if kind == data {
			dataErrs++
		}
		e.stats.failures.Add(1)
		e.log(r).Warn().Err(err).Int("chunk", c.Number).Int("failures", failures).Dur("again_in", delay).Msg("chunk failed")

		over := !troubled.IsZero() && now.Sub(troubled) > p.OutageFor
		switch {
		case kind == data && dataErrs >= p.Tries, kind == suspect && over:
			if c.ProductIDs == nil {
				return e.abandon(ctx, r, stop, err)
			}
			return e.inParts(ctx, r, stop, c, done, last, kind, err)
		case kind == suspect && failures%probeEvery == 0 && len(c.ProductIDs) > 1:
			if found, err := e.probe(ctx, r, stop, c, done, last, err); found || err != nil {
				return err
			}
		case kind != later && over:
			return e.abandon(ctx, r, stop, fmt.Errorf("it was out of order for %v: %w", p.OutageFor, err))
		}
		if err := pause(ctx, stop, delay); err != nil {
			return err
		}
	}
}

// attempt calls the recomputation once. saved says whether progress or release is written too.
func (e *Engine) attempt(ctx context.Context, r *refresh, c Chunk, done int, last bool) (out written, saved bool, err error) {
	e.stats.calls.Add(1)
	if t, ok := e.cfg.Recompute.(transactional); ok && t.shares() {
		out, err = t.recomputeIn(ctx, c, writing{schema: e.store.schema, token: r.token, leaseMS: e.store.leaseMS, done: done, last: last && !c.Part})
		return out, err == nil && !c.Part, err
	}
	out.n, out.failed, err = e.cfg.Recompute.Recompute(ctx, c)
	return out, false, err
}

// advance writes that a chunk is dealt with, unless that is written already.
func (e *Engine) advance(ctx context.Context, r *refresh, stop <-chan struct{}, done int, last bool, out written, saved bool) error {
	e.stats.recomputed.Add(out.n)
	switch {
	case last && !saved:
		if err := e.release(ctx, r, stop, out.n, out.failed, nil, done); err != nil {
			return err
		}
		r.done = done
		return nil
	case !saved:
		err := e.persist(ctx, r, stop, "progress", func(ctx context.Context) error {
			return e.store.progress(ctx, r, done, out.n, out.failed)
		})
		if err != nil {
			return err
		}
	}
	r.done, r.n, r.failed = done, r.n+out.n, r.failed+len(out.failed)
	if last {
		e.released(r, out.released, nil)
	}
	return nil
}

// abandon ends a refresh before its end; what is not dealt with goes into the dead letter.
func (e *Engine) abandon(ctx context.Context, r *refresh, stop <-chan struct{}, why error) error {
	if err := e.giveUp(ctx, r, stop, why); err != nil {
		return err
	}
	return errGivenUp
}
