package engine

import "context"

// takeOverAtOnce is how many expired refreshes are asked for at a time.
const takeOverAtOnce = 16

// TakeOver takes over refreshes whose lease has ended, as many as there are places for, and returns how many. Call it when
// the end of a lease is due; it is also called at the start of Run, and again and again while there are more than places.
// While the engine is not running it does nothing.
func (e *Engine) TakeOver(ctx context.Context) (n int, err error) {
	e.taking.Lock()
	defer e.taking.Unlock()
	for {
		room := e.roomToTakeOver()
		if room == 0 {
			return n, nil
		}
		taken, err := e.store.takeOver(ctx, room)
		e.tookOver(len(taken), err == nil && len(taken) == room)
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
// meanwhile, and there may be takeOverAtOnce too many in the end. Where there is none, it is remembered that one was wanted.
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

// tookOver takes places; more says that there may be more refreshes to take over.
func (e *Engine) tookOver(n int, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places += n
	e.missed = more
}

func (e *Engine) hasMissed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.missed && e.running && e.places < e.capacity()
}
