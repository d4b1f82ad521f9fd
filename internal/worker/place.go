package worker

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// Of a large fleet only a few listen, see package listen. A worker that has a seat and can't take jobs is in the way of one
// that could, so it leaves the seat; the next one in line looks as soon as it has it, and so takes what was announced to
// deaf ears. That costs the two of them a connection and some ten statements together, so it is not done for a moment's sake.

// fullAfter is how long a worker in a large fleet is full before somebody else shall listen.
const fullAfter = 10 * time.Millisecond

// reserveApart is within what time those in reserve look for the same job.
const reserveApart = 100 * time.Millisecond

// place is what a worker knows of its seat.
type place struct {
	alive atomic.Int64 // workers, as of the last beat; 0: not known yet
	many  atomic.Bool  // so that only few of them listen
}

// sit asks for a seat and says whether, and how, this worker hears.
func (r *reserving) sit() listen.Hearing {
	if r.cfg.Seat == nil {
		return listen.Listening
	}
	if !r.quiet.sits {
		r.cfg.Seat.Sit()
		r.quiet.sits = true
	}
	return r.cfg.Seat.Hearing()
}

// rise leaves the seat to another. From here on nobody wakes us, so the next free slot looks unasked.
func (r *reserving) rise() {
	if r.cfg.Seat == nil || !r.quiet.sits {
		return
	}
	if r.quiet.hands && r.place.crowded() {
		r.withdrawHands() // from here on it would not hear of what it is handed
	}
	r.cfg.Seat.Rise()
	r.quiet.sits, r.quiet.trusts = false, false
	r.hungry = true
}

// spread is how much later than others a worker in reserve looks for what it knows to be due: or all would look at once.
func (r *reserving) spread() time.Duration {
	if !r.inReserve() {
		return 0
	}
	return rand.N(reserveApart)
}

// crowded says whether others may be waiting for a seat.
func (p *place) crowded() bool { return p.many.Load() }

// inReserve says whether this worker trusts others to listen.
func (w *Worker) inReserve() bool { return w.cfg.Seat != nil && w.cfg.Seat.Hearing() == listen.Reserve }

// counted takes note of what a beat has told of the others.
func (w *Worker) counted(f queue.Fleet) {
	w.turns.among(f.Wanting)
	w.place.alive.Store(int64(f.Alive))
	many := listen.Crowded(f.Alive, w.place.many.Load())
	w.place.many.Store(many)
	if w.cfg.Seat != nil {
		w.cfg.Seat.Fleet(many)
	}
	w.acquainted()
	if f.Unheard {
		w.cfg.Bell.Ring(listen.Unheard)
	}
}
