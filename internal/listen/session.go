package listen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A seat is the lock of a view, kept by a transaction on a connection of its own: one that listens must not be in a
// transaction. Neither who waits for the lock nor who has it holds a snapshot, so vacuum is not held back, see seats.sql.

const (
	// probeEvery is how often a seat's owner says that it lives, and looks whether another seat is empty for no reason. The
	// server ends the session of one that does not, frozen or behind a network that swallows all, after unprobed, so that its
	// seat is free.
	probeEvery = 7 * time.Second
	unprobed   = 25 * time.Second

	queryCanceled = "57014"
)

// errPooler says that a lock would stay with a server session that is not ours.
var errPooler = errors.New("a pooler answers in the server's place")

// seatSettings are for the session of a seat, which waits for long and is in a transaction for long. Those that a server
// does not have are passed over.
var seatSettings = []string{
	`SELECT set_config(name, CASE name WHEN 'idle_in_transaction_session_timeout' THEN '` + strconv.Itoa(int(unprobed.Milliseconds())) + `' ELSE '0' END, false)
	   FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout')`,
	`SELECT set_config('tcp_keepalives_idle', '2', false), set_config('tcp_keepalives_interval', '1', false), set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '5000', false)`,
	`SELECT set_config('client_connection_check_interval', '2000', false)`, // or who died in line is found when it is its turn
}

// seatSession is a connection on which a seat is waited for and had. One goroutine uses it.
type seatSession struct {
	cfg  Config
	conn *pgx.Conn // nil when there is none
	seat int       // 0: none
}

func (s *seatSession) has() bool  { return s.seat != 0 && s.open() }
func (s *seatSession) open() bool { return s.conn != nil && !s.conn.IsClosed() }

// connect makes sure that there is a connection.
func (s *seatSession) connect(ctx context.Context) error {
	if s.open() {
		return nil
	}
	s.end()
	cfg := s.cfg.Conn.Copy()
	cfg.RuntimeParams["application_name"] = strings.TrimSuffix(cfg.RuntimeParams["application_name"], " listen") + " seat"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.conn = conn
	if err := s.setUp(context.WithoutCancel(ctx)); err != nil { // a session that is half set up must not be taken for one that is
		s.end()
		return err
	}
	return nil
}

// setUp makes a new session fit to wait.
func (s *seatSession) setUp(ctx context.Context) error {
	defer s.bounded()()
	conn := s.conn
	// First of all: behind a pooler the settings would stay with a session that others use.
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return fmt.Errorf("ask which session it is: %w", err)
	}
	if pid != conn.PgConn().PID() {
		return errPooler
	}
	for _, sql := range seatSettings {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil && conn.IsClosed() {
			return fmt.Errorf("set up the session: %w", err)
		}
	}
	return nil
}

// take takes a free seat. When there is none, it says in whose line to wait, in the transaction that it has begun.
func (s *seatSession) take(ctx context.Context) (line int, err error) {
	defer s.bounded()()
	if err := s.reset(ctx); err != nil {
		return 0, err
	}
	if _, err := s.conn.Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED", pgx.QueryExecModeSimpleProtocol); err != nil {
		return 0, fmt.Errorf("ask for a seat: %w", err)
	}
	var taken bool
	err = s.conn.QueryRow(ctx, "SELECT seat, taken FROM "+s.function("take_seat")+"()", pgx.QueryExecModeSimpleProtocol).Scan(&line, &taken)
	if err != nil {
		return 0, fmt.Errorf("ask for a seat: %w", err)
	}
	if taken {
		s.seat = line
		return 0, nil
	}
	return line, nil
}

// wait stands in line for a seat. It may return without one: then another is free.
func (s *seatSession) wait(ctx context.Context, line int) error {
	_, err := s.conn.Exec(ctx, "LOCK TABLE "+pgx.Identifier{s.cfg.Seats, "seat_" + strconv.Itoa(line)}.Sanitize()+" IN SHARE UPDATE EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol)
	var called *pgconn.PgError
	switch {
	case err == nil:
		s.seat = line
		return nil
	case errors.As(err, &called) && called.Code == queryCanceled && s.open():
		return nil
	}
	return fmt.Errorf("wait for a seat: %w", err)
}

// reset ends a transaction that a call has left behind.
func (s *seatSession) reset(ctx context.Context) error {
	if s.conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	if _, err := s.conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("leave the line: %w", err)
	}
	return nil
}

func (s *seatSession) function(name string) string {
	return pgx.Identifier{s.cfg.Seats, name}.Sanitize()
}

// hold returns when ctx ends, or with an error when the session is lost, and the seat with it.
func (s *seatSession) hold(ctx context.Context) error {
	for ctx.Err() == nil {
		probe, done := context.WithTimeout(ctx, probeEvery)
		err := s.conn.PgConn().WaitForNotification(probe) // of which there are none: the server has nothing to say here but goodbye
		late := probe.Err() != nil
		done()
		if ctx.Err() != nil {
			break
		}
		if err == nil || late && s.open() {
			err = s.probe(ctx)
		}
		if err != nil {
			s.seat = 0
			return fmt.Errorf("keep the seat: %w", err)
		}
	}
	return nil
}

func (s *seatSession) probe(ctx context.Context) error {
	defer s.bounded()()
	_, err := s.conn.Exec(context.WithoutCancel(ctx), "SELECT "+s.function("fill_seats")+"(true)", pgx.QueryExecModeSimpleProtocol)
	return err
}

// leave lets the next one in line have the seat, and says whether there was one. A session that can't is ended, which does the same.
func (s *seatSession) leave(ctx context.Context) (left bool) {
	if !s.open() {
		s.seat = 0
		return false
	}
	if s.seat == 0 {
		defer s.bounded()()
		if err := s.reset(ctx); err != nil {
			s.end()
		}
		return false
	}
	s.seat = 0
	s.call(ctx, "ROLLBACK; ")
	return true
}

// call has somebody in line called to a free seat, if it matters.
func (s *seatSession) call(ctx context.Context, before string) {
	if !s.open() {
		return
	}
	defer s.bounded()()
	if _, err := s.conn.Exec(ctx, before+"SELECT "+s.function("fill_seats")+"(false)", pgx.QueryExecModeSimpleProtocol); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("seat left, but whether to anybody is not known")
		s.end()
	}
}

// end ends the session, and says goodbye if that takes no time.
func (s *seatSession) end() {
	s.seat = 0
	if s.conn == nil {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	if s.open() {
		_, _ = s.conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // or the server would log a client lost in a transaction
	}
	_ = s.conn.Close(ctx)
	select {
	case <-s.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
	s.conn = nil
}

// bounded makes the connection fail when the server takes too long with what follows, until the returned func is called.
func (s *seatSession) bounded() func() {
	conn := s.conn.PgConn().Conn()
	_ = conn.SetDeadline(time.Now().Add(connectTimeout))
	return func() { _ = conn.SetDeadline(time.Time{}) }
}
