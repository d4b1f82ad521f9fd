package worker

import (
	"sync"
	"time"
)

// While more jobs wait than there are slots, jobs that do next to nothing end in little groups, each of which would be worth a look and a
// conclusion. So for a moment the loop waits for all that began together, and so does the concluder: a statement for all of them.

const (
	// Handlers that take less than briefJob, on average, end together.
	briefJob = time.Millisecond
	// Nobody waits longer than this.
	gatherFor = time.Millisecond
	// Of more jobs than this a part is worth a statement, and is written while the others run.
	gatherUpTo = 32
)

// gathering is about the jobs of a look that found as many as it asked for: more may wait.
type gathering struct {
	mu    sync.Mutex
	began int           // by that look; 0: the last one found less
	until time.Time     // then they are not waited for any more
	took  time.Duration // by a handler, of late
}

// looked takes note of a look that asked for so many.
func (g *gathering) looked(asked, found int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began, g.until = 0, time.Now().Add(gatherFor)
	if found >= asked && found <= gatherUpTo {
		g.began = found
	}
}

// ended takes note of a handler.
func (g *gathering) ended(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.took += (took - g.took) / 8
}

// more says how long to wait until as many slots are free as that look filled; not at all: 0.
func (g *gathering) more(free int) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if free >= g.began {
		return 0
	}
	return g.leftLocked()
}

// left says how long a conclusion may wait for those of jobs that began together with its own; not at all: 0.
func (g *gathering) left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leftLocked()
}

func (g *gathering) leftLocked() time.Duration {
	if g.began <= 1 || g.took >= briefJob {
		return 0
	}
	return max(0, time.Until(g.until))
}
