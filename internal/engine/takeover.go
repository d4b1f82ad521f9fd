package engine

import "context"

// takeOverAtOnce is how many places are taken while the database is asked for expired refreshes: not all, or submissions
// would be refused meanwhile.
const takeOverAtOnce = 16

// TakeOver takes over refreshes whose lease has ended, as many as there are places for, and returns how many. Call it when
// the end of a lease is due; it is also called at the start of Run, and again and again while there are more than places.
// While the engine is not running it does nothing.
func (e *Engine) TakeOver(ctx context.Context) (n int, err error) {
	for {
		places := e.takeMany(takeOverAtOnce)
		if places == 0 {
			return n, nil
		}
		taken, err := e.store.takeOver(ctx, places)
		for _, r := range taken {
			e.stats.takenOver.Add(1)
			e.log(r).Warn().Int("takeovers", r.takeovers).Int("done", r.done).Int("products", len(r.ids)).Msg("refresh taken over")
			e.start(r)
		}
		e.freeMany(places-len(taken), err == nil && len(taken) == places)
		e.admitted.Done()
		n += len(taken)
		if err != nil || len(taken) < places {
			return n, err
		}
	}
}

// takeMany takes free places, at most limit. Where there is none, it is remembered that somebody wanted one.
func (e *Engine) takeMany(limit int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		return 0
	}
	n := min(limit, cap(e.queue)-e.places)
	if n == 0 {
		e.missed = true
		return 0
	}
	e.places += n
	e.admitted.Add(1)
	return n
}

// freeMany gives places back; more says that there may be more refreshes to take over.
func (e *Engine) freeMany(n int, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places -= n
	e.missed = more
	e.announceRoom()
}

func (e *Engine) hasMissed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.missed && e.running && e.places < cap(e.queue)
}
