package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"notifyworker/internal/queue"
)

const (
	busyFirst, busyCap = 5 * time.Millisecond, 100 * time.Millisecond // between looks at a locked row
	busyFor            = 5 * time.Second

	// A job that is refused because of a refresh is woken by its release; its back-off is the net under that, and must
	// not use up the job's 100 attempts while a refresh waits for a recomputation that says "not now": 7 h at least.
	refusedFirst, refusedCap = 100 * time.Millisecond, 10 * time.Minute
)

// Submit accepts a PRICE_REFRESH: the job is COMPLETED and its refresh ACTIVE, in one commit, and the refresh runs here
// when its turn comes. It returns the refresh's id, 0 when there was nothing to do; or one of the four refusals;
// or queue.ErrLost; or an error of the database, after which the job may have been accepted all the same: its token tells.
func (e *Engine) Submit(ctx context.Context, j queue.Job) (refreshID int64, err error) {
	refreshID, err = e.submit(ctx, j)
	e.stats.refuse(err)
	return refreshID, err
}

func (e *Engine) submit(ctx context.Context, j queue.Job) (refreshID int64, err error) {
	if err := e.take(); err != nil {
		return 0, err
	}
	r, err := e.admit(ctx, j)
	if r != nil {
		e.start(r)
		e.admitted.Done()
		e.stats.accepted.Add(1)
		return r.ID, nil
	}
	e.free()
	e.admitted.Done()
	return 0, err
}

// admit returns nil and no error when there was nothing to do.
func (e *Engine) admit(ctx context.Context, j queue.Job) (*refresh, error) {
	var config queue.PriceRefreshConfig
	if err := json.Unmarshal(j.Config, &config); err != nil {
		return nil, fmt.Errorf("%w of job %d: %w", errBadConfig, j.ID, err)
	}
	since := time.Now()
	for wait := busyFirst; ; wait = min(2*wait, busyCap) {
		asked := time.Now()
		a, err := e.store.admit(ctx, j)
		if err != nil {
			return nil, fmt.Errorf("admit job %d: %w", j.ID, err)
		}
		switch a.outcome {
		case "accepted":
			return &refresh{
				Refresh: Refresh{
					ID: a.refreshID, JobID: j.ID, TenantID: j.TenantID, CatalogID: j.CatalogID, Full: config.Full,
					TraceID: j.TraceID, OperatedBy: j.OperatedBy,
				},
				token: a.token, ids: config.ProductIDs, listed: !config.Full, leaseUntil: asked.Add(e.cfg.Lease),
			}, nil
		case "nothing":
			return nil, nil
		case "product_in_flight":
			return nil, &blocked{ErrProductRefreshInFlight, a.refreshID}
		case "full_in_flight":
			return nil, &blocked{ErrFullRefreshCatalogInFlight, a.refreshID}
		case "lost":
			return nil, queue.ErrLost
		}
		if time.Since(since) > busyFor {
			return nil, fmt.Errorf("admit job %d: %w", j.ID, errRowLocked)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("admit job %d: %w: %w", j.ID, errRowLocked, context.Cause(ctx))
		}
	}
}

// Handle is Submit as a handler of PRICE_REFRESH jobs: accepted is Concluded, a refusal is Refused, and one because of the
// shutdown Released: the job has done nothing for it. While the queue is full it waits for a place first: the worker's slot
// that it holds is what slows the reservations down.
func (e *Engine) Handle(ctx context.Context, j queue.Job) queue.Outcome {
	refreshID, err := e.submitPatiently(ctx, j)
	e.stats.refuse(err)
	var b *blocked
	switch {
	case err == nil && refreshID == 0:
		return queue.Outcome{Kind: queue.Concluded, Note: "nothing to refresh"}
	case err == nil:
		return queue.Outcome{Kind: queue.Concluded, Note: fmt.Sprintf("accepted as refresh %d", refreshID)}
	case errors.Is(err, queue.ErrLost):
		return queue.Outcome{Kind: queue.Lost, Err: err}
	case errors.As(err, &b):
		return queue.Outcome{
			Kind: queue.Refused, Err: err, Delay: refusedDelay(j.Attempt),
			Result: json.RawMessage(fmt.Sprintf(`{"refusedBy": %d}`, b.by)),
		}
	case errors.Is(err, ErrRunnerStopped):
		return queue.Outcome{Kind: queue.Released, Err: err}
	case errors.Is(err, ErrQueueFull), errors.Is(err, errRowLocked):
		return queue.Outcome{Kind: queue.Refused, Err: err}
	case errors.Is(err, errBadConfig):
		return queue.Outcome{Kind: queue.Permanent, Err: err} // it is frozen: no later attempt can read it either
	}
	return queue.Outcome{Kind: queue.Failed, Err: err}
}

// Handler is e, as what the worker dispatches PRICE_REFRESH jobs to.
func (e *Engine) Handler() queue.Handler { return e }

func (e *Engine) submitPatiently(ctx context.Context, j queue.Job) (int64, error) {
	deadline := time.NewTimer(e.cfg.QueueWait)
	defer deadline.Stop()
	for {
		room := e.roomAhead()
		id, err := e.submit(ctx, j)
		if !errors.Is(err, ErrQueueFull) {
			return id, err
		}
		select {
		case <-room:
		case <-deadline.C:
			return 0, err
		case <-ctx.Done():
			return 0, err
		}
	}
}

// refusedDelay doubles with each attempt up to a cap, spread over its upper half.
func refusedDelay(attempt int) time.Duration {
	d := growing(refusedFirst, refusedCap, attempt-1)
	return d/2 + rand.N(d/2+1)
}

// growing is first doubled n times, at most ceiling; it is defined for every n.
func growing(first, ceiling time.Duration, n int) time.Duration {
	for ; n > 0 && first < ceiling; n-- {
		first *= 2
	}
	return min(first, ceiling)
}

// take takes a place, or refuses.
func (e *Engine) take() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.running:
		return ErrRunnerStopped
	case e.places >= e.capacity():
		return ErrQueueFull
	}
	e.places++
	e.admitted.Add(1)
	return nil
}

// free gives a place back.
func (e *Engine) free() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places--
	e.announceRoom()
}

func (e *Engine) announceRoom() {
	close(e.room)
	e.room = make(chan struct{})
}

// roomAhead is closed when a place becomes free from now on, or at the stop.
func (e *Engine) roomAhead() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.room
}

// start holds a refresh, whose place is taken, and queues it.
func (e *Engine) start(r *refresh) {
	r.began = time.Now()
	e.mu.Lock()
	e.held[r.ID] = r
	e.mu.Unlock()
	e.queue <- r
}

// end gives up a refresh and its place.
func (e *Engine) end(r *refresh) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, r.ID)
	e.places--
	e.announceRoom()
}
