package listen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Every session that listens costs each notifying commit a signal, so of many idle processes only a few listen: those that
// have a seat. A seat is a lock of the listening session. So it is free the moment its session ends, however that happens,
// and the server itself gives it to the next one in line. The others are in reserve: they wait for a seat on the connection
// on which they will listen.

// inLine is how long one statement waits for a seat. It holds back vacuum, so it is short; it is also how long it takes a
// reserve to notice that those who have the seats let work lie.
const (
	inLine       = 5 * time.Second
	inLineSpread = time.Second
)

// seat is what a Listener knows of its seat, under its mutex.
type seat struct {
	wanted  bool
	changed context.CancelFunc // of who waits for wanted to change; may be nil
	none    bool               // this connection can't have one, and listens without: as behind a pooler
	left    uint32             // the backend of a connection that was dropped for being deaf, 0 when there is none
}

// Sit says that this process wants to listen: at once when a seat is free, or else as soon as it is its turn. When LISTEN
// stands, the bell rings. It wants to from the beginning. Sit never blocks.
func (l *Listener) Sit() { l.want(true) }

// Rise says that this process needs no notifications now, and leaves its seat, or its place in line, to another. It never
// blocks.
func (l *Listener) Rise() { l.want(false) }

func (l *Listener) want(want bool) {
	if l.cfg.Seats == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat.wanted = want; l.seat.changed != nil {
		l.seat.changed()
	}
}

// Hearing says whether notifications reach this process. While it answers Listening after Sit, there has been no gap since
// the last ring for Connected.
func (l *Listener) Hearing() Hearing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Hearing
}

// whileWanting returns a context that ends when ctx does or when wanting a seat is no longer as it is said to be. One
// goroutine at a time uses it.
func (l *Listener) whileWanting(ctx context.Context, wanted bool) (context.Context, func()) {
	until, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat.wanted != wanted {
		cancel()
	}
	l.seat.changed = cancel
	return until, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seat.changed = nil
		cancel()
	}
}

func (l *Listener) wanting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seat.wanted
}

// meet looks who answers on a new connection. Behind a pooler a lock would stay with a session that is not ours, so there it
// listens without a seat. And a session that was left behind in silence has its seat taken away.
func (l *Listener) meet(ctx context.Context, conn *pgx.Conn) error {
	if l.cfg.Seats == "" {
		return nil
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return fmt.Errorf("ask which session it is: %w", err)
	}
	l.mu.Lock()
	l.seat.none = pid != conn.PgConn().PID()
	left := l.seat.left
	l.mu.Unlock()
	if left == 0 || left == pid {
		return nil
	}
	_, err := conn.Exec(ctx, "SELECT "+l.function("end_seat")+"($1)", pgx.QueryExecModeSimpleProtocol, int64(left))
	if err != nil && conn.IsClosed() {
		return fmt.Errorf("end the session before: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seat.left = 0
	return nil
}

func (l *Listener) function(name string) string { return pgx.Identifier{l.cfg.Seats, name}.Sanitize() }

// sitDown returns once this process wants a seat and has one.
func (l *Listener) sitDown(ctx context.Context, conn *pgx.Conn) error {
	for {
		if l.alwaysListens() {
			return nil
		}
		if !l.wanting() {
			l.inReserve("busy")
			if err := l.read(ctx, conn, false); err != nil {
				return err
			}
			continue
		}
		wait := time.Duration(0)
		if l.Hearing() == Reserve { // else it is not known yet whether a seat is free
			wait = inLine - rand.N(inLineSpread)
		}
		got, unheard, err := l.takeSeat(ctx, conn, wait)
		switch {
		case err != nil:
			return err
		case got && l.wanting():
			return nil
		case got: // work came meanwhile: the next one shall have it
			if err := l.leaveSeat(ctx, conn); err != nil {
				return err
			}
			continue
		case unheard:
			l.cfg.Bell.Ring(Unheard)
		}
		l.inReserve("enough others listen")
	}
}

func (l *Listener) alwaysListens() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.Seats == "" || l.seat.none && l.seat.wanted
}

// takeSeat waits in line; unheard says that it was in vain although work is due and nobody seems to hear of it.
func (l *Listener) takeSeat(ctx context.Context, conn *pgx.Conn, wait time.Duration) (got, unheard bool, err error) {
	mustAnswer(conn, wait)
	defer mayBeSilent(conn)
	err = conn.QueryRow(ctx, "SELECT seat IS NOT NULL, unheard FROM "+l.function("take_seat")+"($1)",
		pgx.QueryExecModeSimpleProtocol, wait.Milliseconds()).Scan(&got, &unheard)
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return got, unheard, nil
	case ctx.Err() == nil && !conn.IsClosed() && errors.As(err, &refused):
		// Better one listener too many than one too few.
		l.cfg.Log.Warn().Err(err).Msg("no seat can be asked for: listening without one")
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seat.none = true
		return true, false, nil
	}
	return false, false, fmt.Errorf("wait for a seat: %w", err)
}

// inReserve takes note that this process is connected and does not listen.
func (l *Listener) inReserve(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.state.Hearing
	l.retry.fails = 0
	l.turn(Reserve, why)
	l.isReady()
	if before != Reserve && l.seat.wanted {
		l.cfg.Bell.Ring(Nudged) // so that a sleeper takes its wish back, which would be in vain
	}
}

// getUp leaves the seat if it isn't wanted any more. Whoever calls Sit and then Hearing knows which: it has been left only
// when Hearing says so.
func (l *Listener) getUp(ctx context.Context, conn *pgx.Conn) (stays bool, err error) {
	l.mu.Lock()
	if l.seat.wanted {
		l.mu.Unlock()
		return true, nil
	}
	l.conn, l.pending, l.state.BackendPID = nil, time.Time{}, 0
	l.turn(Reserve, "busy")
	l.mu.Unlock()
	return false, l.leaveSeat(ctx, conn)
}

// leaveSeat lets the next one in line have it.
func (l *Listener) leaveSeat(ctx context.Context, conn *pgx.Conn) error {
	mustAnswer(conn, 0)
	defer mayBeSilent(conn)
	if _, err := conn.Exec(ctx, "unlisten *; SELECT pg_advisory_unlock_all()", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("leave the seat: %w", err)
	}
	return nil
}
