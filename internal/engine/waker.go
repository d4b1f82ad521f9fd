package engine

import (
	"context"
	"sync"
	"time"
)

// catalogKey names a catalog.
type catalogKey struct{ tenant, catalog string }

// wakeAfter is when a catalog is woken again after a release that jobs had been refused for: a job that was refused before
// the release and is requeued after it would wait for its back-off, with the way free. These looks are a statement each; a
// requeue that takes longer has its back-off as the net.
var wakeAfter = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, time.Second}

// maxWakes bounds what is remembered.
const maxWakes = 10_000

// waker remembers which catalogs to wake again, and when.
type waker struct {
	poke chan struct{} // has room for one: an entry came in

	mu   *sync.Mutex
	open map[catalogKey]wakeUp
}

type wakeUp struct {
	since time.Time // of the release
	step  int       // of wakeAfter
}

func (w wakeUp) at() time.Time { return w.since.Add(wakeAfter[w.step]) }

func newWaker() waker {
	return waker{poke: make(chan struct{}, 1), mu: new(sync.Mutex), open: map[catalogKey]wakeUp{}}
}

// add has a catalog woken again in a moment.
func (w waker) add(k catalogKey) {
	w.mu.Lock()
	if len(w.open) < maxWakes {
		w.open[k] = wakeUp{since: time.Now()}
	}
	w.mu.Unlock()
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// due takes the catalogs that are due, and says how long until the next one is.
func (w waker) due(now time.Time) (keys []catalogKey, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	for k, u := range w.open {
		if !u.at().After(now) {
			keys = append(keys, k)
			if u.step++; u.step == len(wakeAfter) {
				delete(w.open, k)
				continue
			}
			w.open[k] = u
		}
		next = min(next, u.at().Sub(now))
	}
	return keys, next
}

// run wakes catalogs until ctx ends; then all that are left, once.
func (w waker) run(ctx context.Context, wake func(context.Context, []catalogKey)) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		keys, next := w.due(time.Now())
		if len(keys) > 0 {
			wake(ctx, keys)
		}
		t.Reset(max(next, time.Millisecond))
		select {
		case <-t.C:
		case <-w.poke:
		case <-ctx.Done():
			if keys, _ := w.due(time.Now().Add(time.Hour)); len(keys) > 0 {
				wake(context.WithoutCancel(ctx), keys)
			}
			return
		}
	}
}

// wake is best effort: a job that is not woken comes back after its back-off.
func (e *Engine) wake(ctx context.Context, keys []catalogKey) {
	if err := e.store.wake(ctx, keys); err != nil && ctx.Err() == nil {
		e.cfg.Log.Debug().Err(err).Int("catalogs", len(keys)).Msg("catalogs not woken")
	}
}
