package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
)

// hall is a database with sessions that take its seats, as a worker's listener does.
type hall struct {
	t        *testing.T
	db       *pgtest.Database
	observer *pgx.Conn
}

func newHall(t *testing.T) *hall {
	t.Helper()
	db := pgtest.DB(t)
	return &hall{t, db, db.Conn(t)}
}

// guest is one such session.
type guest struct {
	*pgx.Conn
	seat int        // that it has, or waits for
	came chan error // what came of waiting, once; nil: it does not wait
}

func (h *hall) run(c *pgx.Conn, sql string) {
	h.t.Helper()
	if _, err := c.Exec(h.t.Context(), sql); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

// ask has one more session ask for a seat.
func (h *hall) ask() (g *guest, taken bool) {
	h.t.Helper()
	g = &guest{Conn: h.db.Conn(h.t)}
	h.run(g.Conn, "SET statement_timeout = '20s'; BEGIN ISOLATION LEVEL READ COMMITTED") // who asks must not wait: that would be with a snapshot
	if err := g.QueryRow(h.t.Context(), "SELECT seat, taken FROM notifyworker.take_seat()", pgx.QueryExecModeSimpleProtocol).Scan(&g.seat, &taken); err != nil {
		h.t.Fatalf("take a seat: %v", err)
	}
	return g, taken
}

// full has four sit down.
func (h *hall) full() (sitting []*guest) {
	h.t.Helper()
	seats := map[int]bool{}
	for range 4 {
		g, taken := h.ask()
		if !taken || g.seat < 1 || g.seat > 4 || seats[g.seat] {
			h.t.Fatalf("one of four is given seat %d, or the line for it; others have %v", g.seat, seats)
		}
		seats[g.seat] = true
		sitting = append(sitting, g)
	}
	return sitting
}

// wait has one more session wait for the seat that it is told.
func (h *hall) wait() *guest {
	h.t.Helper()
	g, taken := h.ask()
	if taken {
		h.t.Fatalf("a fifth is given seat %d", g.seat)
	}
	h.run(g.Conn, "SET statement_timeout = 0")
	g.came = make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := g.Exec(ctx, fmt.Sprintf("LOCK TABLE notifyworker.seat_%d IN SHARE UPDATE EXCLUSIVE MODE", g.seat), pgx.QueryExecModeSimpleProtocol)
		g.came <- err
	}()
	h.t.Cleanup(func() { cancel(); <-ended })
	pgtest.WaitBlocked(h.t, h.observer, g.PgConn().PID())
	return g
}

func (h *hall) fill(always bool) (called bool) {
	h.t.Helper()
	if err := h.observer.QueryRow(h.t.Context(), "SELECT notifyworker.fill_seats($1)", always).Scan(&called); err != nil {
		h.t.Fatal(err)
	}
	return called
}

func (h *hall) leave(g *guest) { h.t.Helper(); h.run(g.Conn, "ROLLBACK") }

// count asks what seat_locks tells.
func (h *hall) count(c *pgx.Conn) (has, wait int) {
	h.t.Helper()
	err := c.QueryRow(h.t.Context(), "SELECT count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted) FROM notifyworker.seat_locks()").Scan(&has, &wait)
	if err != nil {
		h.t.Fatalf("ask who has a seat: %v", err)
	}
	return has, wait
}

// Who was told where to wait may not be in line yet when all but one leave, and that one may have frozen.
func TestWhoIsNotYetInLineIsCalledToASeatThatWasLeftMeanwhile(t *testing.T) {
	h := newHall(t)
	var sitting []*guest
	for range 3 {
		g, _ := h.ask()
		sitting = append(sitting, g)
	}
	conn, err := pgx.ParseConfig(h.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.New(listen.Config{
		Bell: listen.NewDoorbell(), Mode: listen.Notify, Conn: conn, Channel: "notifyworker", Seats: "notifyworker",
		EchoChannel: listen.EchoChannel("aaaaaaaa-0000-4000-8000-000000000001"), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Fleet(true)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	until := func(what, sql string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			var is bool
			if err := h.observer.QueryRow(t.Context(), sql).Scan(&is); err != nil {
				t.Fatal(err)
			} else if is {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	until("the listener sits down", `SELECT count(*) = 4 FROM notifyworker.seat_locks()`)
	g, taken := h.ask()
	if taken {
		t.Fatal("a fifth is given a seat")
	}
	h.leave(sitting[1])
	h.leave(sitting[2])
	l.Rise()
	until("the listener leaves, and has called those in line", `SELECT count(*) = 1 FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'ROLLBACK; SELECT%fill_seats%' AND state = 'idle'`)
	h.run(g.Conn, "SET statement_timeout = '10s'")
	began := time.Now()
	_, err = g.Exec(t.Context(), fmt.Sprintf("LOCK TABLE notifyworker.seat_%d IN SHARE UPDATE EXCLUSIVE MODE", sitting[0].seat), pgx.QueryExecModeSimpleProtocol)
	if took := time.Since(began); !called(err) || took > 5*time.Second {
		t.Errorf("after %v: %v, want it to be called away from the line for a seat whose owner has frozen", took, err)
	}
}

func called(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "57014"
}

func TestSeatsAreFourAndTheLinesForThemEquallyLong(t *testing.T) {
	h := newHall(t)
	sitting := h.full()
	for round := range 2 {
		lines := map[int]bool{}
		for range 4 {
			g := h.wait()
			if lines[g.seat] {
				t.Fatalf("in round %d one is given the line for seat %d; of %v each has one more already", round, g.seat, lines)
			}
			lines[g.seat] = true
		}
	}
	if has, wait := h.count(h.observer); has != 4 || wait != 8 {
		t.Errorf("%d have a seat, %d wait for one", has, wait)
	}
	var pinning int
	err := h.observer.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity a JOIN notifyworker.seat_locks() l USING (pid)
		WHERE backend_xmin IS NOT NULL OR backend_xid IS NOT NULL`).Scan(&pinning)
	if err != nil || pinning != 0 {
		t.Errorf("%d of them hold vacuum back, %v", pinning, err)
	}
	h.leave(sitting[0]) // the server lets the first in its line follow
	if has, wait := h.count(h.observer); has != 4 || wait != 7 {
		t.Errorf("after one has left %d have a seat, %d wait for one", has, wait)
	}
}

func TestSeatsAreCountedByTheirLocksAlone(t *testing.T) {
	h := newHall(t)
	other := newHall(t)
	other.full() // in another database, where the views have the same oids
	if _, err := migrations.Up(t.Context(), h.db.Conn(t), migrations.Options{Schema: "two", Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"SELECT two.take_seat()", // another schema's
		"LOCK TABLE notifyworker.jobs IN SHARE UPDATE EXCLUSIVE MODE", // as vacuum does
		"SELECT FROM notifyworker.seat_1, notifyworker.seat_2",        // who only looks
		"LOCK TABLE notifyworker.seat_3 IN ACCESS SHARE MODE",         // likewise
	} {
		c := h.db.Conn(t)
		h.run(c, "BEGIN")
		h.run(c, sql)
	}
	if has, wait := h.count(h.observer); has != 0 || wait != 0 {
		t.Errorf("%d have a seat, %d wait for one: nobody has or does", has, wait)
	}
	h.full()
}

func TestSeatsThatNobodyHasWaitedForAreFilled(t *testing.T) {
	h := newHall(t)
	sitting := map[int]*guest{}
	for _, g := range h.full() {
		sitting[g.seat] = g
	}
	first, second, third := h.wait(), h.wait(), h.wait()
	expect := func(when string, always, want bool) {
		t.Helper()
		if got := h.fill(always); got != want {
			t.Fatalf("%s: somebody is called: %v", when, got)
		}
	}
	expect("all are taken", true, false)
	for seat, g := range sitting {
		if seat != first.seat && seat != second.seat && seat != third.seat {
			h.leave(g)
		}
	}
	expect("three others are taken", false, false)
	expect("three others are taken, and somebody looks after it", true, true)
	select {
	case err := <-first.came:
		if !called(err) {
			t.Fatalf("who has waited longest is not called: %v", err)
		}
	case err := <-second.came:
		t.Fatalf("not who has waited longest is called: %v", err)
	}
	h.leave(sitting[first.seat])
	expect("two others are taken, whose owners may have frozen", false, true)
	if err := <-second.came; !called(err) {
		t.Fatalf("who waits for it is not called: %v", err)
	}
	h.leave(sitting[second.seat])
	expect("one other is taken, whose owner may have frozen", false, true)
	if err := <-third.came; !called(err) {
		t.Fatalf("who waits for it is not called: %v", err)
	}
	expect("nobody waits", true, false)
}
