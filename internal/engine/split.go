package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// inParts deals with a chunk that can't be recomputed as a whole.
func (e *Engine) inParts(ctx context.Context, r *refresh, stop <-chan struct{}, c Chunk, done int, last bool, kind trouble, why error) error {
	out, good, err := e.split(ctx, r, stop, c, why, false)
	switch {
	case errors.Is(err, errOutOfOrder), kind == suspect && good == 0 && len(c.ProductIDs) > 1:
		// It fails whatever it is given: the chunks to come would too.
		return e.abandon(ctx, r, stop, fmt.Errorf("it was out of order for %v: %w", e.cfg.Patience.OutageFor, why))
	case err != nil:
		return err
	}
	return e.advance(ctx, r, stop, done, last, out, false)
}

// probe tries the halves of a chunk whose failure may or may not be its products' fault. When one of them succeeds, it is:
// then the whole chunk is dealt with, and found is true.
func (e *Engine) probe(ctx context.Context, r *refresh, stop <-chan struct{}, c Chunk, done int, last bool, why error) (found bool, err error) {
	out, good, err := e.split(ctx, r, stop, c, why, true)
	switch {
	case errors.Is(err, errOutOfOrder):
		return false, nil
	case err != nil:
		return false, err
	case good == 0:
		return false, nil
	}
	return true, e.advance(ctx, r, stop, done, last, out, false)
}

// errOutOfOrder ends a split in the midst of which the recomputation went out of order.
var errOutOfOrder = errors.New("the recomputation is out of order")

// split recomputes a chunk in halves, halves of halves that fail, and so on, wide before deep: so that a few bad products
// are found in few calls, and many don't cost more than maxParts. What is not told apart by then fails together. good is
// how many calls succeeded. With probing, it ends with nothing found when both halves fail, or when the refresh has no calls
// left to try both.
func (e *Engine) split(ctx context.Context, r *refresh, stop <-chan struct{}, c Chunk, why error, probing bool) (out written, good int, err error) {
	fail := func(ids []json.RawMessage, why error) {
		text := reason(why.Error())
		if len(ids) > 1 {
			text = reason(fmt.Sprintf("fails together with %d others, which of them is the cause was not found out: %v", len(ids)-1, why))
		}
		for _, id := range ids {
			out.failed = append(out.failed, FailedID{ID: id, Error: text})
		}
	}
	if probing && r.parts > maxPartsRefresh-2 {
		return written{}, 0, nil
	}
	if len(c.ProductIDs) == 1 || r.parts >= maxPartsRefresh {
		fail(c.ProductIDs, why)
		return out, 0, nil
	}
	type part struct {
		Chunk
		why error // of what it is a half of
	}
	halves := func(c Chunk, why error) []part {
		a, b := c, c
		middle := (len(c.ProductIDs) + 1) / 2
		a.Part, b.Part = true, true
		a.ProductIDs, b.ProductIDs, b.Offset = c.ProductIDs[:middle], c.ProductIDs[middle:], c.Offset+middle
		return []part{{a, why}, {b, why}}
	}
	open := halves(c, why)
	for calls := 0; len(open) > 0; {
		if probing && calls == 2 && good == 0 {
			return out, 0, nil
		}
		p := open[0]
		open = open[1:]
		if calls >= maxParts || r.parts >= maxPartsRefresh {
			fail(p.ProductIDs, p.why)
			continue
		}
		calls++
		n, failed, err := e.part(ctx, r, stop, p.Chunk, probing && calls <= 2)
		var bad *badPart
		switch {
		case err == nil:
			good++
			out.n += n
			out.failed = append(out.failed, failed...)
		case !errors.As(err, &bad):
			return written{}, good, err
		case len(p.ProductIDs) == 1:
			fail(p.ProductIDs, bad.error)
		default:
			open = append(open, halves(p.Chunk, bad.error)...)
		}
	}
	return out, good, nil
}

// badPart is a part that fails because of its products, as far as can be told.
type badPart struct{ error }

// part recomputes a part of a chunk. A recomputation that goes out of order meanwhile is waited for, unless in a hurry.
func (e *Engine) part(ctx context.Context, r *refresh, stop <-chan struct{}, c Chunk, hurry bool) (int64, []FailedID, error) {
	r.parts++ // once: to wait for it is no search for who is to blame
	since := time.Now()
	blamed := 0 // failures that may be the products' fault
	for failures := 1; ; failures++ {
		if err := e.ours(ctx, r); err != nil {
			return 0, nil, err
		}
		out, _, err := e.attempt(ctx, r, c, 0, false)
		if err == nil || errors.Is(err, ErrRefreshLost) {
			return out.n, out.failed, err
		}
		if err := e.ours(ctx, r); err != nil {
			return 0, nil, err
		}
		kind, delay := classify(err)
		limit := e.cfg.Patience.OutageFor
		switch kind {
		case data, suspect:
			if blamed++; len(c.ProductIDs) > 1 || blamed > 1 || hurry {
				return 0, nil, &badPart{err}
			}
			delay = e.cfg.Patience.backoff(failures) // a product is not given up for one failure
		case later:
			limit, delay = e.cfg.Patience.LaterFor, e.cfg.Patience.notNow(delay, failures)
		case outage:
			delay = e.cfg.Patience.backoff(failures)
		}
		if hurry || time.Since(since) > limit {
			return 0, nil, fmt.Errorf("%w: %w", errOutOfOrder, err)
		}
		if err := pause(ctx, stop, delay); err != nil {
			return 0, nil, err
		}
	}
}
