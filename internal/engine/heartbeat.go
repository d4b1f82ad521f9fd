package engine

import (
	"context"
	"slices"
	"time"
)

// confirmAfter is how long after a loss was reported it is asked for again: a release that has just been committed looks
// like a loss until its answer is read.
const confirmAfter = 100 * time.Millisecond

// heartbeats extends the leases of all refreshes held, queued ones too, four times a lease, and has expired ones taken over
// that there was no place for before.
func (e *Engine) heartbeats(ctx context.Context) {
	t := time.NewTicker(e.cfg.Lease / 4)
	defer t.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := e.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing { // once a change of state
			failing = err != nil
			if failing {
				e.cfg.Log.Warn().Err(err).Msg("heartbeat of refreshes failed")
			} else {
				e.cfg.Log.Info().Msg("heartbeat of refreshes works again")
			}
		}
		if e.hasMissed() {
			select {
			case e.more <- struct{}{}: // by somebody else: leases don't wait for it
			default:
			}
		}
	}
}

func (e *Engine) beat(ctx context.Context) error {
	held := e.holding(nil)
	if len(held) == 0 {
		return nil
	}
	lost, err := e.extend(ctx, held)
	if err == nil && len(lost) > 0 {
		if pause(ctx, nil, confirmAfter) != nil {
			return nil
		}
		if suspects := e.holding(lost); len(suspects) > 0 {
			lost, err = e.extend(ctx, suspects)
			for _, r := range suspects {
				if err == nil && slices.Contains(lost, r.ID) {
					e.lose(r, ErrRefreshLost)
				}
			}
		}
	}
	now := time.Now()
	for _, r := range held {
		if e.leaseOver(r, now) {
			e.lose(r, errLeaseOver)
		}
	}
	return err
}

// extend extends leases in the database, and then the same ones here: by our own clock from before the database was asked.
func (e *Engine) extend(ctx context.Context, held []*refresh) (lost []int64, err error) {
	asked := time.Now()
	ctx, done := context.WithTimeout(ctx, max(e.cfg.Lease/4, minLease/4))
	defer done()
	extended, lost, err := e.store.extend(ctx, held)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range held {
		if slices.Contains(extended, r.ID) {
			r.leaseUntil = asked.Add(e.cfg.Lease)
		}
	}
	return lost, nil
}

// holding is what is held; with ids, of those only.
func (e *Engine) holding(ids []int64) []*refresh {
	e.mu.Lock()
	defer e.mu.Unlock()
	var held []*refresh
	for id, r := range e.held {
		if r.cause == nil && (ids == nil || slices.Contains(ids, id)) {
			held = append(held, r)
		}
	}
	return held
}

func (e *Engine) leaseOver(r *refresh, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !now.Before(r.leaseUntil)
}

// lose stops a refresh that is ours no more.
func (e *Engine) lose(r *refresh, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.cause != nil {
		return
	}
	r.cause = cause
	if r.cancel != nil {
		r.cancel(cause)
	}
}
