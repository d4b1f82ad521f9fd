package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	handBackTimeout = 3 * time.Second
	// A row that is locked by a moment's transaction is tried again; one that is still locked then is left to its lease.
	handBackAgain, handBackFor = 50 * time.Millisecond, 2 * time.Second
)

// Run runs what is accepted until ctx ends, then drains: no refresh is accepted any more, chunks under way may finish within
// the drain time, and what is left is handed back, so that another process goes on at once. It returns when all that it has
// started has ended; an error only if something could not be handed back, which then waits for the end of its lease.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.ran {
		e.mu.Unlock()
		return errors.New("engine: Run was called twice")
	}
	e.ran, e.running = true, true
	e.mu.Unlock()
	close(e.ready)

	work, cutOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cutOff(nil)
	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeats()

	var helpers, runners sync.WaitGroup
	helpers.Go(func() { e.heartbeats(beats) })
	helpers.Go(func() { e.takeOvers(beats) })
	helpers.Go(func() { e.waker.run(beats, e.wake) })
	var errs problems
	for range e.cfg.Refreshes {
		runners.Go(func() { errs.add(e.runAll(work, ctx.Done())) })
	}
	if _, err := e.TakeOver(ctx); err != nil && ctx.Err() == nil {
		e.cfg.Log.Warn().Err(err).Msg("refreshes not taken over at the start")
	}

	<-ctx.Done()
	e.mu.Lock()
	e.running = false
	e.announceRoom()
	e.mu.Unlock()
	limit := time.AfterFunc(e.cfg.DrainTimeout, func() { cutOff(errHandBack) })
	defer limit.Stop()
	e.admitted.Wait() // an admission under way is accepted, and handed back
	errs.add(e.handBackQueued(ctx))
	runners.Wait()
	stopBeats()
	helpers.Wait()
	return errs.joined()
}

// runAll runs refreshes one after another until the stop.
func (e *Engine) runAll(work context.Context, stop <-chan struct{}) error {
	var errs []error
	for {
		select {
		case <-stop:
			return errors.Join(errs...)
		case r := <-e.queue:
			errs = append(errs, e.runOne(work, r, stop))
		}
	}
}

func (e *Engine) runOne(work context.Context, r *refresh, stop <-chan struct{}) error {
	defer e.end(r)
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	e.mu.Lock()
	r.cancel = cancel
	e.mu.Unlock()
	e.stats.running.Add(1)
	defer e.stats.running.Add(-1)
	err := e.run(ctx, r, stop)
	switch {
	case err == nil, errors.Is(err, errGivenUp):
		return nil
	case errors.Is(err, errHandBack):
		return e.handBack(ctx, []*refresh{r})
	}
	e.stats.lost.Add(1)
	e.log(r).Warn().Err(err).Msg("refresh lost")
	return nil
}

// handBackQueued hands back what has not begun.
func (e *Engine) handBackQueued(ctx context.Context) error {
	var waiting []*refresh
	for {
		select {
		case r := <-e.queue:
			waiting = append(waiting, r)
			continue
		default:
		}
		break
	}
	defer func() {
		for _, r := range waiting {
			e.end(r)
		}
	}()
	return e.handBack(ctx, waiting)
}

// handBack outlives its caller's end, within a limit of its own. Those whose rows are locked by somebody keep no others.
func (e *Engine) handBack(ctx context.Context, held []*refresh) error {
	if len(held) == 0 {
		return nil
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), handBackTimeout)
	defer done()
	back := 0
	for since := time.Now(); ; {
		n, err := e.store.handBack(ctx, held)
		if err != nil {
			return fmt.Errorf("hand back %d refreshes, which now wait for the end of their leases: %w", len(held)-back, err)
		}
		back += n
		e.stats.handedBack.Add(int64(n))
		if back == len(held) || time.Since(since) > handBackFor || pause(ctx, nil, handBackAgain) != nil {
			break
		}
	}
	e.cfg.Log.Info().Int("refreshes", back).Msg("refreshes handed back")
	if left := len(held) - back; left > 0 {
		e.cfg.Log.Warn().Int("refreshes", left).Msg("refreshes not handed back: their rows are locked, and they wait for the end of their leases, or they are lost")
	}
	return nil
}

// log is a logger that names the refresh.
func (e *Engine) log(r *refresh) *zerolog.Logger {
	c := e.cfg.Log.With().Int64("refresh_id", r.ID).Int64("job_id", r.JobID).Str("catalog", r.CatalogID)
	if r.TraceID != "" {
		c = c.Str("trace_id", r.TraceID)
	}
	l := c.Logger()
	return &l
}

// problems gathers the errors of several goroutines.
type problems struct {
	mu   sync.Mutex
	errs []error
}

func (p *problems) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

func (p *problems) joined() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}
