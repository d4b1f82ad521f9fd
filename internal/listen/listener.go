package listen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"
	"golang.org/x/sync/errgroup"
)

// Listener rings a Doorbell. Make it by New; Run it once.
type Listener struct {
	cfg   Config
	ready chan struct{} // closed when work is heard of for the first time, by whatever mode
	hands Hands         // nil: nobody; set as Run begins
	poke  chan struct{} // has room for one: the deadlines of tend have changed

	mu        sync.Mutex
	state     State
	conn      *pgx.Conn // the listening one, nil while there is none
	channels  int       // LISTENs done on the connection that is being made
	connected time.Time // when LISTEN stood on conn
	heard     bool      // something has arrived on conn
	swallowed bool      // the last connection on which LISTEN stood heard nothing, not even its own echo
	pending   time.Time // when the oldest unanswered echo was sent; zero: none
	clock     serverClock
	polled    time.Time // the last Poll
	retry     retry
	between   string          // what a deaf connection is blamed on, "" when nothing is known
	closing   <-chan struct{} // the previous connection's clean-up
	seat      seat
}

// New checks a configuration and says all that is wrong with it at once.
func New(cfg Config) (*Listener, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l := &Listener{cfg: cfg, ready: make(chan struct{}), poke: make(chan struct{}, 1)}
	l.seat.wanted = true
	l.state = State{Mode: cfg.Mode, PollEvery: cfg.PollEvery, Since: time.Now()}
	if cfg.Mode == PollingOnly {
		l.state.Hearing, l.state.Reason = Polling, "as configured"
	} else {
		l.state.Reason = "not connected yet"
	}
	return l, nil
}

// Ready is closed when LISTEN stands for the first time; when PollingOnly, once Run has begun.
func (l *Listener) Ready() <-chan struct{} { return l.ready }

// State returns how things stand.
func (l *Listener) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Run listens and polls until ctx ends, and returns nil then. Troubles with the connection are met by another one; they are
// logged at each change of state and found in State.
func (l *Listener) Run(ctx context.Context) error {
	l.mu.Lock()
	l.polled = time.Now()
	l.mu.Unlock()
	if l.cfg.Hands != nil {
		l.hands = l.cfg.Hands()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.tend(ctx) })
	if l.cfg.Mode == PollingOnly {
		close(l.ready)
	} else {
		g.Go(func() error { return l.listen(ctx) })
		if l.cfg.Seats != "" {
			g.Go(func() error { return l.takeSeats(ctx) })
		}
		if l.cfg.SendEcho != nil {
			g.Go(func() error { return l.sendEchoes(ctx) })
		}
	}
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

func (l *Listener) listen(ctx context.Context) error {
	pl := &pgxlisten.Listener{
		Connect:        l.connect, // waits itself: pgxlisten knows only a constant delay
		ReconnectDelay: -1,
		LogError:       l.failed,
	}
	pl.Handle(l.cfg.Channel, handler{l})
	if l.cfg.EchoChannel != "" {
		pl.Handle(l.cfg.EchoChannel, handler{l})
	}
	var asks sync.WaitGroup
	defer asks.Wait()
	for {
		may, err := l.mayListen(ctx)
		if err != nil {
			l.awaitCleanup(context.WithoutCancel(ctx))
			return err
		}
		_ = pl.Listen(may) // until then: other errors are for LogError
		if ctx.Err() == nil && l.hands != nil {
			ask := l.hands.HungUp()
			asks.Go(func() { ask(ctx) })
		}
	}
}

// connect is pgxlisten's: wait as the last failures demand, dial, and set the session up.
func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	l.mu.Lock()
	delay := l.retry.next()
	l.mu.Unlock()
	if err := sleep(ctx, delay); err != nil {
		return nil, err
	}
	l.awaitCleanup(ctx)
	conn, err := pgx.ConnectConfig(ctx, l.cfg.Conn)
	if err != nil {
		return nil, err
	}
	// From here to the end of HandleBacklog: a server that stops answering must not keep us waiting for ever.
	_ = conn.PgConn().Conn().SetDeadline(time.Now().Add(connectTimeout))
	for _, sql := range sessionSettings {
		if _, err := conn.Exec(ctx, sql); err != nil && conn.IsClosed() {
			return nil, fmt.Errorf("set up the session: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.channels = 0
	l.closing = conn.PgConn().CleanupDone()
	return conn, nil
}

// handler is what pgxlisten calls, always in its one goroutine, which is also the one that reads the socket: nothing here
// waits for anybody but the server.
type handler struct{ l *Listener }

func (h handler) HandleNotification(ctx context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	h.l.hear(ctx, n.Channel, n.Payload, n.PID)
	return nil
}

// HandleBacklog is called after each LISTEN.
func (h handler) HandleBacklog(ctx context.Context, _ string, conn *pgx.Conn) error {
	l := h.l
	want := 1
	if l.cfg.EchoChannel != "" {
		want = 2
	}
	l.mu.Lock()
	l.channels++
	all := l.channels == want
	l.mu.Unlock()
	if !all {
		return nil
	}
	var check sessionCheck
	if err := check.ask(ctx, conn, l.cfg.Channel); err != nil {
		// pgxlisten goes on after this error, so the connection is made to fail where it cannot be overlooked.
		l.cut(conn)
		return fmt.Errorf("ask whether LISTEN stands: %w", err)
	}
	if check.listening {
		l.open(ctx, conn)
	}
	_ = conn.PgConn().Conn().SetDeadline(time.Time{})
	l.established(ctx, conn, check)
	return nil
}

// sessionCheck is what the server says of the session that has just said LISTEN.
type sessionCheck struct {
	pid       int32 // the server's word; behind a pooler not the one that the log-in told
	listening bool
	clock     serverClock
}

// serverClock tells the database's time by ours, which may be set meanwhile: what has passed is told by the one that can't.
type serverClock struct {
	there, here time.Time // the same moment, by its clock and by ours
}

func (c serverClock) now() time.Time { return c.there.Add(time.Since(c.here)) }

func (c *sessionCheck) ask(ctx context.Context, conn *pgx.Conn, channel string) error {
	// The simple protocol, since a prepared statement and a transaction pooler don't go together.
	const sql = `SELECT pg_backend_pid(), $1 IN (SELECT pg_listening_channels()), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	var micros int64
	start := time.Now()
	err := conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol, channel).Scan(&c.pid, &c.listening, &micros)
	c.clock = serverClock{time.UnixMicro(micros), start.Add(time.Since(start) / 2)}
	return err
}

// awaitCleanup waits for the last connection's file descriptor to be closed, so that a loop of failures can't pile them up.
// pgx cleans up by itself, within 15 s at worst; we wait for as much of it as does not delay a reconnection noticeably.
func (l *Listener) awaitCleanup(ctx context.Context) {
	l.mu.Lock()
	closing := l.closing
	l.mu.Unlock()
	if closing == nil {
		return
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-closing:
	case <-t.C:
	case <-ctx.Done():
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
