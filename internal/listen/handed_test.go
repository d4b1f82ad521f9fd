package listen_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/listen"
	"notifyworker/internal/pgtest"
)

const handedTo = "3f0c8f0e-9d5b-4c39-9a43-0b6f7a6f1f11"

// takes asks the connection that it was lent who it is, each time that a job was handed over.
type takes struct {
	conn   *pgx.Conn
	opened chan uint32 // server processes
	took   chan uint32
	jobs   chan listen.Handed
	hungUp chan struct{}
	broken error // closes the connection at the next job
}

func newTakes() *takes {
	return &takes{opened: make(chan uint32, 10), took: make(chan uint32, 10), jobs: make(chan listen.Handed, 10), hungUp: make(chan struct{}, 10)}
}

func (h *takes) lend(c *listen.Config) {
	c.Hands, c.OpenHands = func() listen.Hands { return h }, h.open
}

func (h *takes) pid(ctx context.Context) (pid uint32) {
	if err := h.conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return 0
	}
	return pid
}

func (h *takes) open(ctx context.Context, conn *pgx.Conn) error {
	h.conn = conn
	h.opened <- h.pid(ctx)
	return nil
}

func (h *takes) Handed(ctx context.Context, job listen.Handed) {
	if h.broken != nil {
		h.broken = h.conn.Close(ctx)
		return
	}
	h.jobs <- job
	h.took <- h.pid(ctx)
}

func (h *takes) HungUp() func(context.Context) {
	return func(context.Context) { h.hungUp <- struct{}{} }
}

func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	select {
	case v := <-c:
		return v
	case <-ctx.Done():
		t.Fatalf("%s: not within %v", what, patience)
		panic("unreachable")
	}
}

func TestWhatIsHandedOverIsTakenOnTheConnectionThatHearsOfIt(t *testing.T) {
	db := pgtest.DB(t)
	h := newTakes()
	e := newEar(t, db.URL, db.URL, h.lend)
	e.ring(listen.Connected)
	listening := e.l.State().BackendPID
	if pid := within(t, "a connection is lent", h.opened); pid != listening {
		t.Errorf("lent was %d, and %d listens", pid, listening)
	}
	for n := range 3 {
		e.exec(`SELECT pg_notify('work', $1)`, `{"worker":"`+handedTo+`","job":`+string(rune('1'+n))+`}`)
		if job := within(t, "a job", h.jobs); job.Worker != handedTo || job.Job != int64(n+1) {
			t.Errorf("heard of %+v", job)
		}
		if pid := within(t, "it is asked for", h.took); pid != listening {
			t.Errorf("asked was %d, and %d listens", pid, listening)
		}
	}
	e.bell.Take()
	e.exec(`SELECT pg_notify('work', 'anything')`)
	e.ring(listen.Notified)

	e.l.Redial()
	if pid := within(t, "another connection is lent", h.opened); pid == listening {
		t.Error("it is the same one")
	}
	e.ring(listen.Connected)
	if n := len(h.hungUp); n > 0 {
		t.Errorf("it hung up %d times", n)
	}
}

func TestAConnectionThatIsClosedAtAJobIsReplaced(t *testing.T) {
	db := pgtest.DB(t)
	h := newTakes()
	h.broken = context.Canceled
	e := newEar(t, db.URL, db.URL, h.lend)
	first := within(t, "a connection is lent", h.opened)
	e.exec(`SELECT pg_notify('work', '{"worker":"` + handedTo + `","job":1}')`)
	if second := within(t, "another connection is lent", h.opened); second == first {
		t.Error("it is the same one")
	}
	e.exec(`SELECT pg_notify('work', '{"worker":"` + handedTo + `","job":2}')`)
	if job := within(t, "a job", h.jobs); job.Job != 2 {
		t.Errorf("heard of %+v", job)
	}
}

func TestWhoGoesIntoReserveSaysSoWhenItHasHungUp(t *testing.T) {
	db := pgtest.DB(t)
	h := newTakes()
	e := newEar(t, db.URL, db.URL, func(c *listen.Config) {
		h.lend(c)
		c.Channel, c.Seats = "notifyworker", "notifyworker"
	})
	e.ring(listen.Connected)
	e.l.Fleet(true)
	e.l.Rise()
	within(t, "it has hung up", h.hungUp)
	e.await("it is in reserve", func(s listen.State) bool { return s.Hearing == listen.Reserve })
	if !h.conn.IsClosed() {
		t.Error("the connection is open")
	}
	e.stop()
	if n := len(h.hungUp); n > 0 {
		t.Errorf("it says so %d times more", n)
	}
}
