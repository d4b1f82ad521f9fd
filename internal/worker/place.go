package worker

import (
	"sync/atomic"
	"time"

	"notifyworker/internal/listen"
)

// Of a large fleet only a few listen, see package listen. A worker that has a seat and can't take jobs is in the way of one
// that could, so it leaves the seat; the next one in line looks as soon as it listens, and so takes what was announced to
// deaf ears. That costs the two of them some ten statements together, so it is not done for a moment's sake.
const (
	// Full for this long: somebody else shall listen.
	fullAfter = 10 * time.Millisecond
	// Up to so many workers each have a seat, so nobody waits for one: they leave it only when they are busy.
	seats = 4
)

// place is what a worker knows of its seat.
type place struct {
	alive atomic.Int64 // workers, as of the last beat; 0: not known yet
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
	r.cfg.Seat.Rise()
	r.quiet.sits = false
	r.hungry = true
}

// crowded says whether others may be waiting for a seat.
func (p *place) crowded() bool {
	n := p.alive.Load()
	return n == 0 || n > seats
}

// echoChannel is where the next beat sends its echo: nowhere while this worker does not listen.
func (w *Worker) echoChannel() string {
	if w.cfg.Seat != nil && w.cfg.Seat.Hearing() == listen.Reserve {
		return ""
	}
	return w.cfg.EchoChannel
}
