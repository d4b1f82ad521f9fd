package listen

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

// tend is the goroutine of the clocks: the slow poll and the echo that is awaited.
func (l *Listener) tend(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for spread := 1.0; ; {
		poll, echo := l.deadlines(spread)
		next := poll
		if !echo.IsZero() && echo.Before(next) {
			next = echo
		}
		t.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.poke:
			continue
		case <-t.C:
		}
		now := time.Now()
		if !now.Before(poll) {
			l.mu.Lock()
			l.polled = now
			l.mu.Unlock()
			l.cfg.Bell.Ring(Poll)
			if l.cfg.Mode == Notify {
				spread = 0.9 + rand.Float64()/10 // or a fleet that started together polls together
			}
		}
		if !echo.IsZero() && !now.Before(echo) {
			l.checkEcho(now, echo)
		}
	}
}

// deadlines are when the next poll is due, and when an echo that is awaited is overdue (zero: none is).
func (l *Listener) deadlines(spread float64) (poll, echo time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	poll = l.polled.Add(time.Duration(float64(l.state.PollEvery) * spread))
	if !l.pending.IsZero() {
		echo = l.pending.Add(l.cfg.EchoTimeout)
	}
	return poll, echo
}

func (l *Listener) wakeTend() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// EchoSent takes note that an echo was sent (its statement has committed); at is the time just before. It never blocks.
func (l *Listener) EchoSent(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.EchoChannel == "" || l.conn == nil:
	case at.Before(l.connected): // LISTEN may not have stood yet
	case !l.state.LastEcho.Before(at): // it was faster than the acknowledgement of its sending
	case l.pending.IsZero():
		l.pending = at
		l.wakeTend()
	}
}

// checkEcho drops the connection unless the echo that was due has come meanwhile.
func (l *Listener) checkEcho(now, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending.IsZero() || l.conn == nil || l.pending.Add(l.cfg.EchoTimeout).After(now) {
		return
	}
	late := now.Sub(due)
	if late > time.Second {
		// This process itself was asleep (frozen, or starved): the echo may lie in the socket, unread. Its time starts anew.
		l.pending = now
		l.wakeTend()
		return
	}
	l.overdue(late)
}

// sendEchoes sends one now and then. One that can't be sent says nothing about the listening connection.
func (l *Listener) sendEchoes(ctx context.Context) error {
	for n := uint64(1); ; n++ {
		if err := sleep(ctx, l.cfg.EchoEvery); err != nil {
			return err
		}
		at := time.Now()
		sctx, done := context.WithTimeout(ctx, l.cfg.EchoTimeout)
		err := l.cfg.SendEcho(sctx, l.cfg.EchoChannel, strconv.FormatUint(n, 10))
		done()
		if err != nil {
			l.cfg.Log.Debug().Err(err).Msg("own echo could not be sent")
			continue
		}
		l.EchoSent(at)
	}
}
