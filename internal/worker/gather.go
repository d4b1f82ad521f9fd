package worker

import (
	"sync"
	"time"
)

// While more jobs wait than there are slots, jobs that do next to nothing end in little groups, each of which would be worth a look and a
// conclusion. So for a moment the loop waits for all that began together, and so does the concluder: a statement for all of them. With 8
// slots that is 0.26 statements a job and not 0.5, and a third more jobs a second (bench --only=drain).

const (
	// Handlers that take less than briefJob, on average, end together; nobody waits longer than gatherFor. A look of 8 takes some 1.5 ms.
	briefJob  = time.Millisecond
	gatherFor = time.Millisecond
	// A worker of more slots doesn't wait: there a part of the jobs is worth a statement, and is written while the others run. With 100
	// slots it is as quick without, with 1,000 by a tenth quicker.
	gatherUpTo = 32
	// One that polls doesn't either: a look for all slots that finds fewer jobs ends its round, and the next one is a poll away.
)

// gathering is about the jobs of the last look, if it found as many as it asked for: more may wait. The loop tells of looks and asks before the
// next one; handlers tell of their ends and ask for their outcomes.
type gathering struct {
	worthIt bool

	mu    sync.Mutex
	began int           // by that look; 0: it found less
	until time.Time     // then nothing is waited for any more
	took  time.Duration // by a handler, of late
}

// looked takes note of a look that asked for so many.
func (g *gathering) looked(asked, found int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began, g.until = 0, time.Now().Add(gatherFor)
	if g.worthIt && found >= asked {
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
	if free >= g.began || !g.goesOnLocked() {
		return 0
	}
	return time.Until(g.until)
}

// others says until when an outcome may wait for those of other jobs; not at all: zero.
func (g *gathering) others() (until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.goesOnLocked() {
		return g.until
	}
	return time.Time{}
}

func (g *gathering) goesOnLocked() bool {
	return g.began > 1 && g.took < briefJob && time.Now().Before(g.until)
}
