package worker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lane is a line of conclusions before one kind of statement.
type lane struct {
	wake chan struct{} // has room for one: there is something new

	mu    sync.Mutex
	items []*conclusion
}

func newLane() *lane { return &lane{wake: make(chan struct{}, 1)} }

func (l *lane) put(x *conclusion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, x)
	l.signal()
}

// flush has written now what waits for nothing but that others go with it: what was not tried before.
func (l *lane) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.items {
		if x.tries == 0 {
			x.at = time.Time{}
		}
	}
	if len(l.items) > 0 {
		l.signal()
	}
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// mostWeight is how many bytes of results one statement takes, one result at least: it must be through within statementTimeout.
const mostWeight = 4 << 20

// take returns up to n that may be written now, oldest first; when there is none, how long until there is (negative: unknown).
func (l *lane) take(n int) (batch []*conclusion, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait = -1
	weight := 0
	seen := make(map[int64]bool, min(n, len(l.items))) // two reservations of one job can't go by one id in one statement
	rest := l.items[:0]
	for _, x := range l.items {
		left := x.at.Sub(now)
		heavy := len(batch) > 0 && weight+len(x.out.Result) > mostWeight
		if left <= 0 && len(batch) < n && !seen[x.job.ID] && !heavy {
			seen[x.job.ID] = true
			weight += len(x.out.Result)
			batch = append(batch, x)
			continue
		}
		rest = append(rest, x)
		if left = max(left, 0); wait < 0 || left < wait {
			wait = left
		}
	}
	clear(l.items[len(rest):])
	l.items = rest
	if cap(l.items) > 4*maxBatch && len(l.items) < maxBatch {
		l.items = slices.Clone(l.items) // give back what a burst needed
	}
	if len(batch) > 0 && len(rest) > 0 {
		l.signal() // another goroutine of the lane may go on
	}
	return batch, wait
}

// drive takes and writes until ctx ends.
func (l *lane) drive(ctx context.Context, n int, write func([]*conclusion)) {
	clock := time.NewTimer(forever)
	defer clock.Stop()
	for ctx.Err() == nil {
		batch, wait := l.take(n)
		if len(batch) > 0 {
			write(batch)
			continue
		}
		if wait < 0 {
			wait = forever
		}
		clock.Reset(wait)
		select {
		case <-l.wake:
		case <-clock.C:
		case <-ctx.Done():
		}
	}
}
