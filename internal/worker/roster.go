package worker

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"notifyworker/internal/listen"
)

// Those who listen take turns (see turns.go), so each of them must know the others. A beat says who they are, but between two
// beats there are seconds. So in a large fleet, where seats change hands, whoever begins or ends to listen brings its next beat
// forward and has it tell those who listen; and who hears that brings its own forward, and so knows who listens now.

const (
	// beatApart is for each of those who listen the least time between two of its beats, so that all of them together make no
	// more than some 16 a second besides the usual ones, however often seats change hands, and whoever says that they do.
	beatApart = 60 * time.Millisecond
	fewest    = 4
	// beatSpread is how far apart those ask who have heard the same. Within it the old and the new owner of a seat are mostly
	// told of both.
	beatSpread = 30 * time.Millisecond
)

// roster is when to ask anew who listens, and whether to tell others to.
type roster struct {
	news    chan struct{} // has room for one
	changed atomic.Bool   // set by the loop: the table has another wish of this worker's than when the others were told
}

// Moved says that others have begun or ended to listen. It never blocks.
func (w *Worker) Moved() {
	select {
	case w.roster.news <- struct{}{}:
	default:
	}
}

// wished takes note that the table has another wish of this worker's than before.
func (w *Worker) wished() {
	w.roster.changed.Store(true)
	w.acquainted()
}

// acquainted has the others told what they were not told, if the fleet is large: in a small one all listen, but for a moment.
func (w *Worker) acquainted() {
	if w.place.crowded() && w.roster.changed.Load() {
		w.Moved()
	}
}

// notice is what the next beat tells those who listen, "" for nothing. From here on they count as told.
func (w *Worker) notice() string {
	if w.place.crowded() && w.roster.changed.Swap(false) {
		return listen.SeatsMoved
	}
	return ""
}

// untold takes note of a notice that was not sent.
func (w *Worker) untold(notice string) {
	if notice != "" {
		w.roster.changed.Store(true)
	}
}

// untilBeat waits for the time of the next beat: a pause after the last one, or earlier when there is news.
func (w *Worker) untilBeat(ctx context.Context, last time.Time, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-w.roster.news:
		soon := time.Until(last.Add(beatApart*time.Duration(max(w.turns.count(), fewest)))) + rand.N(beatSpread)
		sleep(ctx, min(soon, time.Until(last.Add(pause))))
	}
	select {
	case <-w.roster.news: // this beat answers it, too
	default:
	}
	return ctx.Err() == nil
}
