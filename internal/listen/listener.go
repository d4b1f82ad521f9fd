package listen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// Listener rings a Doorbell. Make it by New; Run it once.
type Listener struct {
	cfg   Config
	ready chan struct{} // closed when work is heard of for the first time, by whatever mode
	poke  chan struct{} // has room for one: the deadlines of tend have changed

	mu        sync.Mutex
	state     State
	conn      *pgx.Conn     // the listening one, nil while there is none
	connected time.Time     // when LISTEN stood on conn
	heard     bool          // something has arrived on conn
	swallowed bool          // the last connection on which LISTEN stood heard nothing, not even its own echo
	pending   time.Time     // when the oldest unanswered echo was sent; zero: none
	skew      time.Duration // the database's clock minus ours
	polled    time.Time     // the last Poll
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
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.tend(ctx) })
	if l.cfg.Mode == PollingOnly {
		close(l.ready)
	} else {
		g.Go(func() error { return l.listen(ctx) })
		if l.cfg.SendEcho != nil {
			g.Go(func() error { return l.sendEchoes(ctx) })
		}
	}
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// listen replaces each connection that ends by another one.
func (l *Listener) listen(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.session(ctx); err != nil {
			l.failed(ctx, err)
		}
	}
	l.awaitCleanup(context.WithoutCancel(ctx))
	return ctx.Err()
}

// session is the life of one connection: to a seat, listening there, up again, and to a seat the next time. Whoever runs it
// is also the one that reads the socket: nothing here waits for anybody but the server.
func (l *Listener) session(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	for {
		if err := l.sitDown(ctx, conn); err != nil {
			return err
		}
		if err := l.subscribe(ctx, conn); err != nil {
			return err
		}
		for stays := true; stays; {
			if err := l.read(ctx, conn, true); err != nil {
				return err
			}
			if stays, err = l.getUp(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// connect waits as the last failures demand, dials, and sets the session up.
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
	mustAnswer(conn, 0)
	for _, sql := range sessionSettings {
		if _, err := conn.Exec(ctx, sql); err != nil && conn.IsClosed() {
			return nil, fmt.Errorf("set up the session: %w", err)
		}
	}
	l.mu.Lock()
	l.closing = conn.PgConn().CleanupDone()
	l.mu.Unlock()
	if err := l.meet(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	mayBeSilent(conn)
	return conn, nil
}

// mustAnswer bounds what follows: a server that stops answering must not keep us waiting for ever.
func mustAnswer(conn *pgx.Conn, longer time.Duration) {
	_ = conn.PgConn().Conn().SetDeadline(time.Now().Add(connectTimeout + longer))
}

func mayBeSilent(conn *pgx.Conn) { _ = conn.PgConn().Conn().SetDeadline(time.Time{}) }

// subscribe says LISTEN and makes sure that it stands.
func (l *Listener) subscribe(ctx context.Context, conn *pgx.Conn) error {
	mustAnswer(conn, 0)
	sql := "listen " + pgx.Identifier{l.cfg.Channel}.Sanitize()
	if l.cfg.EchoChannel != "" {
		sql += "; listen " + pgx.Identifier{l.cfg.EchoChannel}.Sanitize()
	}
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("listen %q: %w", l.cfg.Channel, err)
	}
	var check sessionCheck
	if err := check.ask(ctx, conn, l.cfg.Channel); err != nil {
		return fmt.Errorf("ask whether LISTEN stands: %w", err)
	}
	mayBeSilent(conn)
	if !l.established(conn, check) {
		return errors.New("LISTEN does not stand")
	}
	return nil
}

// read hands on what arrives until the connection ends, or, without an error, until this process no longer wants a seat as
// it did at first.
func (l *Listener) read(ctx context.Context, conn *pgx.Conn, wanted bool) error {
	until, done := l.whileWanting(ctx, wanted)
	defer done()
	for {
		n, err := conn.WaitForNotification(until)
		switch {
		case err == nil:
			l.hear(n.Channel, n.Payload, n.PID)
		case until.Err() != nil && ctx.Err() == nil && !conn.IsClosed():
			return nil
		default:
			return fmt.Errorf("waiting for notification: %w", err)
		}
	}
}

// sessionCheck is what the server says of the session that has just said LISTEN.
type sessionCheck struct {
	pid       int32 // the server's word; behind a pooler not the one that the log-in told
	listening bool
	skew      time.Duration
}

func (c *sessionCheck) ask(ctx context.Context, conn *pgx.Conn, channel string) error {
	// The simple protocol, since a prepared statement and a transaction pooler don't go together.
	const sql = `SELECT pg_backend_pid(), $1 IN (SELECT pg_listening_channels()), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	var micros int64
	start := time.Now()
	err := conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol, channel).Scan(&c.pid, &c.listening, &micros)
	c.skew = time.UnixMicro(micros).Sub(start.Add(time.Since(start) / 2))
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
