package listen

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// readOnlyTransaction is what a standby answers to LISTEN: it can't be had during recovery.
const readOnlyTransaction = "25006"

// established takes note that LISTEN stands on conn.
func (l *Listener) established(ctx context.Context, conn *pgx.Conn, check sessionCheck) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil { // it may not listen any more
		return
	}
	now := time.Now()
	if !check.listening {
		l.retry.deaf++
		l.turn(Deaf, "LISTEN was accepted but does not stand"+l.pooler(conn, check))
		l.cut(conn)
		return
	}
	l.conn, l.connected, l.heard, l.pending, l.clock = conn, now, false, time.Time{}, check.clock
	l.retry.fails = 0
	l.state.BackendPID = uint32(check.pid)
	l.state.Connects++
	l.state.LastConnect = now
	l.between = l.pooler(conn, check)
	switch {
	case !l.swallowed:
		l.retry.deaf = 0
		l.turn(Listening, "")
	case l.state.Hearing == Reserve: // only hearing something is a proof of the contrary
		l.turn(Deaf, "LISTEN was accepted, but nothing was heard the last time"+l.between)
	}
	l.isReady()
	l.cfg.Bell.Ring(Connected) // LISTEN first, then look: nothing falls between
}

func (l *Listener) isReady() {
	select {
	case <-l.ready:
	default:
		close(l.ready)
	}
}

// pooler is what to add to the reason should this connection prove deaf.
func (l *Listener) pooler(conn *pgx.Conn, check sessionCheck) string {
	if uint32(check.pid) == conn.PgConn().PID() {
		return ""
	}
	return "; a pooler answers in the server's place: give the listener a connection past it, or a pool of session mode"
}

// hear takes in one notification of whatever channel.
func (l *Listener) hear(ctx context.Context, channel, payload string, sender uint32) {
	if !l.announced(channel) {
		return
	}
	if payload == SeatsMoved {
		if l.cfg.Moved != nil {
			l.cfg.Moved()
		}
		return
	}
	if l.handed(ctx, payload) {
		return
	}
	if payload == ManyCommits {
		l.cfg.Bell.Ring(Many)
		return
	}
	turn := time.Duration(0)
	if l.cfg.Turn != nil {
		// The sender is in the key, since payloads of other types than PRICE_REFRESH are all alike.
		turn = l.cfg.Turn(payload + strconv.FormatUint(uint64(sender), 36))
	}
	rung := turn <= 0 && !strings.Contains(payload, dueKey)
	if rung {
		l.cfg.Bell.Ring(Notified)
		runtime.Gosched() // who waits for the bell goes first: it has a job to start, and here is only something to count
	}
	hint, err := ParseHint(payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.state.Malformed++
		l.cfg.Log.Debug().Err(err).Int("bytes", len(payload)).Msg("notification can't be read: looking at everything")
		turn = 0
	case !hint.Due.IsZero():
		turn += max(0, hint.Due.Sub(l.clock.now()))
	}
	switch {
	case rung:
	case turn <= 0:
		l.cfg.Bell.Ring(Notified)
	case turn < l.cfg.PollEvery:
		l.cfg.Bell.RingIn(turn)
	default: // a poll comes first, and its look tells when the next job is due
	}
}

// announced takes note that something was heard, and says whether it is of work.
func (l *Listener) announced(channel string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.heard, l.swallowed = true, false
	l.retry.deaf = 0
	l.pending = time.Time{} // whatever arrives proves what an echo proves
	if l.state.Hearing == Deaf {
		l.turn(Listening, "")
	}
	if channel == l.cfg.EchoChannel {
		l.state.Echoes++
		l.state.LastEcho = now
		return false
	}
	l.state.Notifications++
	l.state.LastNotification = now
	return true
}

// failed is pgxlisten's LogError: the connection could not be had, LISTEN was refused, or reading ended.
func (l *Listener) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.conn != nil
	l.conn, l.pending, l.state.BackendPID = nil, time.Time{}, 0
	var pgErr *pgconn.PgError
	switch {
	case had && l.state.Hearing == Listening:
		l.turn(Connecting, plain(err))
	case had: // dropped for being deaf: the reason stands
	case errors.As(err, &pgErr) && strings.HasPrefix(err.Error(), "listen "):
		l.retry.fails++
		l.retry.deaf++
		reason := "LISTEN was refused: " + pgErr.Message
		if pgErr.Code == readOnlyTransaction {
			reason += "; the server is a standby or read-only: connect to the primary"
		}
		l.turn(Deaf, reason)
	case l.state.Hearing == Deaf:
		l.retry.fails++
	default:
		l.retry.fails++
		l.turn(Connecting, plain(err))
	}
}

// turn changes Hearing and says so, once a change.
func (l *Listener) turn(to Hearing, reason string) {
	from := l.state.Hearing
	if from == to && reason == l.state.Reason {
		return
	}
	if from != to {
		l.state.Since = time.Now()
	}
	l.state.Hearing, l.state.Reason = to, reason
	l.state.PollEvery = l.cfg.PollEvery
	if to != Listening && to != Reserve {
		l.state.PollEvery = min(l.cfg.PollEvery, l.cfg.FallbackPollEvery)
	}
	l.wakeTend()
	l.moves()
	if from == Listening && (to == Connecting || to == Deaf) {
		l.cfg.Bell.Ring(Nudged) // or commits would go on handing jobs to a process that does not hear of it
	}
	switch {
	case from == Reserve && to == Listening, to == Reserve: // a matter of course
		l.cfg.Log.Debug().Stringer("now", to).Str("reason", reason).Msg("seats have changed hands")
	case to == Listening:
		l.cfg.Log.Info().Str("channel", l.cfg.Channel).Uint32("backend_pid", l.state.BackendPID).Msg("listening for notifications")
	case to == Connecting && (from == Listening || from == Reserve):
		l.cfg.Log.Info().Str("reason", reason).Msg("listening connection lost, reconnecting")
	default:
		l.cfg.Log.Warn().Str("reason", reason).
			Msgf("notifications can't be had: running on polling alone every %v, and trying again", l.state.PollEvery)
	}
}

// plain takes the noise off an error that goes to State and log. pgx leaves passwords out of its own errors.
func plain(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "waiting for notification: "), "connect: ")
}

// overdue drops a connection on which an echo was not heard in time.
func (l *Listener) overdue(late time.Duration) {
	l.state.Overdue++
	l.pending = time.Time{}
	l.cfg.Bell.Ring(Overdue)
	reason := fmt.Sprintf("the own echo did not come back within %v", l.cfg.EchoTimeout)
	if l.heard {
		l.turn(Connecting, reason)
	} else {
		l.swallowed = true
		l.retry.deaf++
		l.turn(Deaf, "LISTEN was accepted, but nothing is heard: "+reason+l.between)
	}
	l.cfg.Log.Debug().Dur("late", late).Msg("listening connection dropped")
	l.cut(l.conn)
}

// cut ends reading, and reading alone, so that the server is still told goodbye.
func (l *Listener) cut(conn *pgx.Conn) {
	_ = conn.PgConn().Conn().SetReadDeadline(time.Unix(1, 0))
}
