package worker

import (
	"sync"
	"time"
)

// forever is longer than any worker lives: what a timer waits for that has nothing to wait for.
const forever = 365 * 24 * time.Hour

// soonest is an alarm clock for one goroutine. Of all times that it is told, by whomever, it keeps the earliest.
type soonest struct {
	poke chan struct{} // has room for one: at was moved

	mu sync.Mutex
	at time.Time // zero: none known
}

// by has the goroutine wake at this time, unless it will earlier. The zero time says nothing.
func (c *soonest) by(at time.Time) {
	if at.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(at)
}

func (c *soonest) keep(at time.Time) {
	if !c.at.IsZero() && !at.Before(c.at) {
		return
	}
	c.at = at
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// wait is how long until then; forever when no time is known.
func (c *soonest) wait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return forever
	}
	return time.Until(c.at)
}

// passed forgets the time. Call it before doing what it was for: what is told meanwhile is for the next time.
func (c *soonest) passed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}
