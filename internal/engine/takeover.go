package engine

import (
	"context"
	"sync"
)

// takeOverAtOnce is how many expired refreshes are asked for at a time.
const takeOverAtOnce = 16

// TakeOver takes over refreshes whose lease has ended, as many as there are places for, and returns how many. Call it when
// the end of a lease is due; it is also called at the start of Run, and again and again while there are more than places.
// While the engine is not running it does nothing. While a search of all leases is slow, it is for those that ended of late, and
// TakeOverAll for the others.
func (e *Engine) TakeOver(ctx context.Context) (n int, err error) {
	return e.takeOver(ctx, &e.taking, e.store.endings.Within())
}

// TakeOverAll is TakeOver for leases that ended at any time, when that is slow. It does nothing unless it is time for it, and is for a
// goroutine of its own: it may take seconds, and nobody should wait for it.
func (e *Engine) TakeOverAll(ctx context.Context) (n int, err error) {
	if !e.store.endings.Due() {
		return 0, nil
	}
	return e.takeOver(ctx, &e.takingAll, nil)
}

func (e *Engine) takeOver(ctx context.Context, one *sync.Mutex, within *int64) (n int, err error) {
	one.Lock()
	defer one.Unlock()
	for {
		room := e.roomToTakeOver()
		if room == 0 {
			return n, nil
		}
		taken, err := e.store.takeOver(ctx, room, within)
		e.tookOver(len(taken), room, err)
		for _, r := range taken {
			e.stats.takenOver.Add(1)
			e.log(r).Warn().Int("takeovers", r.takeovers).Int("done", r.done).Int("products", len(r.ids)).Msg("refresh taken over")
			e.start(r)
		}
		e.admitted.Done()
		n += len(taken)
		if err != nil || len(taken) < room {
			return n, err
		}
	}
}

// roomToTakeOver is for how many there are places, at most takeOverAtOnce. The places are not taken yet: submissions go on
// meanwhile, and there may be mostTakenOver too many in the end. Where there is none, it is remembered that one was wanted.
// Who gets more than 0 calls admitted.Done.
func (e *Engine) roomToTakeOver() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		return 0
	}
	n := min(takeOverAtOnce, e.capacity()-e.places)
	if n <= 0 {
		e.missed = true
		return 0
	}
	e.admitted.Add(1)
	return n
}

// mostTakenOver may be taken over at once: a TakeOver and a TakeOverAll go on side by side.
const mostTakenOver = 2 * takeOverAtOnce

// tookOver takes n places, of so many asked for, and keeps in mind whether there may be more refreshes to take over.
func (e *Engine) tookOver(n, asked int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places += n
	e.missed = n == asked || err != nil && e.missed
}

func (e *Engine) hasMissed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.missed && e.running && e.places < e.capacity()
}

// takeOvers takes over what there was no place for before, each time that it is told to, until ctx ends.
func (e *Engine) takeOvers(ctx context.Context) {
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-e.more:
		}
		_, err := e.TakeOver(ctx)
		if ctx.Err() == nil && err != nil && !failing { // once a change of state
			e.cfg.Log.Warn().Err(err).Msg("refreshes not taken over")
		}
		failing = err != nil
	}
}
