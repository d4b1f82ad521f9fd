package listen

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Everybody is up to how many processes all listen. Every session that listens costs each notifying commit a signal, so of
// more than these only those listen that have one of the few seats. The others are in reserve: they wait for a seat.
const Everybody = 8

// Crowded says whether so many processes are too many for all of them to listen. Where it was so before, one less is, too, or a fleet whose
// processes are replaced one by one, the new one first, would take and leave its seats each time.
func Crowded(alive int, before bool) bool { return alive > Everybody || before && alive == Everybody }

// withoutSeat is how long a process that can't be given a seat listens without one before it asks again.
const withoutSeat = 30 * time.Second

// callAgain is how long after it has left its seat a process calls somebody to it once more: longer than anybody takes from the
// answer where to wait to the wait.
const callAgain = 300 * time.Millisecond

// place is where a process is to be.
type place uint8

const (
	anywhere place = iota // listening, whether it has a seat or not
	seated                // listening, on a seat
	away                  // not listening
)

// seat is what a Listener knows of its seat, under its mutex.
type seat struct {
	wanted  bool // Sit, and not Rise since
	crowded bool // there are more than Everybody
	barred  bool // no seat: it must not listen
	refused bool // the server gives out no seats, or a pooler is in between

	admitted chan struct{}      // closed when barred ends
	hangUp   context.CancelFunc // ends listening; nil when it has not begun
	going    place              // where takeSeats is on the way to, or is
	turn     context.CancelFunc // told when going is no longer the place to be; nil at first
}

// Sit says that this process wants to be told of work. In a large fleet it waits for a seat then; when it has one and LISTEN
// stands, the bell rings. It wants to from the beginning. Sit never blocks.
func (l *Listener) Sit() { l.change(func(s *seat) { s.wanted = true }) }

// Rise says that this process needs no notifications now. In a large fleet it leaves its seat, or its place in line, to
// another. It never blocks.
func (l *Listener) Rise() { l.change(func(s *seat) { s.wanted = false }) }

// Fleet says whether so many processes share the work that only few of them listen, see Crowded.
func (l *Listener) Fleet(crowded bool) { l.change(func(s *seat) { s.crowded = crowded }) }

// Hearing says whether notifications reach this process. While it answers Listening after Sit, there has been no gap since
// the last ring for Connected.
func (l *Listener) Hearing() Hearing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Hearing
}

func (l *Listener) change(how func(*seat)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(&l.seat)
	l.moves()
}

// moves tells takeSeats when the place to be is another than before.
func (l *Listener) moves() {
	if l.seat.turn != nil && l.seat.going != l.whereTo() {
		l.seat.turn()
	}
}

func (l *Listener) whereTo() place {
	switch s := &l.seat; {
	case !s.crowded || s.refused || l.state.Hearing == Deaf: // who can't hear takes no seat from those who can
		return anywhere
	case s.wanted:
		return seated
	}
	return away
}

// next returns the place to be, and a context that ends when that changes.
func (l *Listener) next(ctx context.Context) (place, context.Context) {
	here, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat.turn != nil {
		l.seat.turn()
	}
	l.seat.going, l.seat.turn = l.whereTo(), cancel
	return l.seat.going, here
}

// takeSeats is the goroutine that takes and leaves seats.
func (l *Listener) takeSeats(ctx context.Context) error {
	s := &seatSession{cfg: l.cfg}
	defer s.end()
	var again retry
	var refusal string // that has been logged; "" after a seat was had
	for {
		to, here := l.next(ctx)
		if ctx.Err() != nil {
			l.change(func(s *seat) { s.turn() })
			return ctx.Err()
		}
		if to != seated {
			if to == away {
				l.bar("busy")
			} else {
				l.admit(false)
			}
			if to == anywhere {
				s.end() // a small fleet needs no seats
			}
			if here.Err() == nil {
				// Who was told a moment ago in which line to wait, and is not in it yet, is overlooked the first time.
				if s.leave(ctx) && sleep(here, callAgain) == nil {
					s.call(ctx, "")
				}
				<-here.Done()
			}
			continue
		}
		err := l.sitDown(ctx, here, s)
		if err == nil || ctx.Err() != nil {
			again, refusal = retry{tried: true}, ""
			continue
		}
		again.fails++
		var no *pgconn.PgError
		if errors.Is(err, errPooler) || errors.As(err, &no) && no.Code != queryCanceled && s.open() {
			s.end()
			if refusal != err.Error() {
				refusal = err.Error()
				l.cfg.Log.Warn().Err(err).Msg("no seat can be had: listening without one")
			}
			l.change(func(s *seat) { s.refused = true })
			l.admit(false)
			_ = sleep(ctx, withoutSeat)
			l.change(func(s *seat) { s.refused = false })
			continue
		}
		s.end()
		l.outOfLine(err)
		_ = sleep(ctx, again.next())
	}
}

// sitDown takes a seat and keeps it, until here ends or the session is lost.
func (l *Listener) sitDown(ctx, here context.Context, s *seatSession) error {
	if err := s.connect(here); err != nil {
		return unless(here, err)
	}
	waited := false
	for !s.has() {
		line, err := s.take(ctx)
		if err != nil {
			return err
		}
		if line == 0 {
			break
		}
		l.bar("enough others listen")
		waited = true
		if err := s.wait(here, line); err != nil {
			return unless(here, err)
		}
	}
	l.admit(waited)
	return unless(here, s.hold(here))
}

// unless is err, but for one that came of here having ended.
func unless(here context.Context, err error) error {
	if here.Err() != nil {
		return nil
	}
	return err
}

// bar ends listening, unless the process is to be elsewhere by now. So who calls Sit and then Hearing knows what it has.
func (l *Listener) bar(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat.going != l.whereTo() || l.seat.barred && l.state.Hearing == Reserve && l.state.Reason == why {
		return
	}
	if !l.seat.barred {
		l.seat.barred, l.seat.admitted = true, make(chan struct{})
		if l.seat.hangUp != nil {
			l.seat.hangUp()
		}
		l.conn, l.pending, l.state.BackendPID = nil, time.Time{}, 0
	}
	slept := l.state.Hearing != Reserve
	l.turn(Reserve, why)
	l.isReady()
	if slept && l.seat.wanted {
		l.cfg.Bell.Ring(Nudged) // so that a sleeper takes its wish back, which would be in vain
	}
}

// admit lets this process listen. One that has waited looks at once: the one before left since it could take no more.
func (l *Listener) admit(waited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat.barred {
		l.seat.barred = false
		close(l.seat.admitted)
		l.retry = retry{}
	}
	if waited && l.seat.wanted {
		l.cfg.Bell.Ring(Seated)
	}
}

// outOfLine takes note that the session that waited for a seat, or had one, is gone.
func (l *Listener) outOfLine(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Hearing == Reserve {
		l.turn(Connecting, plain(err))
	}
	l.cfg.Log.Debug().Err(err).Msg("connection for a seat lost")
}

// mayListen waits until this process may, and returns a context that ends when it may no more.
func (l *Listener) mayListen(ctx context.Context) (context.Context, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.mu.Lock()
		if !l.seat.barred {
			may, cancel := context.WithCancel(ctx)
			l.seat.hangUp = cancel
			l.mu.Unlock()
			return may, nil
		}
		admitted := l.seat.admitted
		l.mu.Unlock()
		select {
		case <-admitted:
		case <-ctx.Done():
		}
	}
}
