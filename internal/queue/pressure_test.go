package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

func TestPressureNamesTheSessionThatPinsVacuum(t *testing.T) {
	tb := newTable(t)
	conn := tb.conn()
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SET LOCAL application_name = 'report'; SELECT count(*) FROM notifyworker.jobs"); err != nil {
		t.Fatal(err)
	}
	tb.exec("CREATE TABLE other (n integer)") // a transaction since
	p, err := tb.Pressure(t.Context())
	o := p.Oldest
	if err != nil || o.PID != int(conn.PgConn().PID()) || o.Application != "report" || o.State != "idle in transaction" || o.Age <= 0 || o.XIDs < 1 || o.Horizon == "" {
		t.Errorf("got %+v, %v; want the session %d", p, err, conn.PgConn().PID())
	}
	if p.NotifyQueue < 0 || p.NotifyQueue > 1 || p.Workers != 0 {
		t.Errorf("got %+v", p)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err = tb.Pressure(t.Context()); err != nil || p.Oldest.PID == o.PID {
		t.Errorf("after its end: %+v, %v", p, err)
	}
}

func TestPressureWithoutTheRightToSeeOthers(t *testing.T) {
	tb := newTable(t)
	holder, asker := tb.conn(), tb.conn()
	tx, err := holder.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // the connection is closed anyway
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM notifyworker.jobs"); err != nil {
		t.Fatal(err)
	}
	role := fmt.Sprintf("nwtest_nobody_%d", rand.Int32()) // roles are the server's, which other tests use too
	tb.exec("CREATE ROLE " + role)
	defer tb.exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	if _, err := asker.Exec(t.Context(), "SET ROLE "+role); err != nil {
		t.Fatal(err)
	}
	s, err := queue.New(queue.Config{DB: asker, WorkerID: workerB})
	if err != nil {
		t.Fatal(err)
	}
	tb.exec("GRANT USAGE ON SCHEMA notifyworker TO " + role)
	tb.exec("GRANT SELECT ON notifyworker.workers TO " + role)
	p, err := s.Pressure(t.Context())
	if err != nil || p.Oldest.PID != int(holder.PgConn().PID()) || p.Oldest.Age >= 0 {
		t.Errorf("got %+v, %v; want pid %d and an age that may not be seen", p, err, holder.PgConn().PID())
	}
	if err := s.Writable(t.Context()); !errors.Is(err, queue.ErrNoRights) {
		t.Errorf("got %v, want %v", err, queue.ErrNoRights)
	}
}

func TestWritableSaysWhyNot(t *testing.T) {
	tb := newTable(t)
	if err := tb.Writable(t.Context()); err != nil {
		t.Error(err)
	}
	conn := tb.conn()
	if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	s, err := queue.New(queue.Config{DB: conn, WorkerID: workerB})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Writable(t.Context()); !errors.Is(err, queue.ErrReadOnly) {
		t.Errorf("got %v, want %v", err, queue.ErrReadOnly)
	}
}

func TestAdditionsAreCountedAndTheirAgeTold(t *testing.T) {
	tb := newTable(t)
	if n, age, err := tb.Additions(t.Context()); n != 0 || age != 0 || err != nil {
		t.Errorf("got %d, %v, %v of an empty table", n, age, err)
	}
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', '["p1"]')`)
	tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', '["p2"]')`)
	if n, age, err := tb.Additions(t.Context()); n != 1 || age <= 0 || err != nil {
		t.Errorf("got %d, %v, %v", n, age, err)
	}
}

func (tb table) conn() *pgx.Conn {
	tb.t.Helper()
	c, err := pgx.ConnectConfig(tb.t.Context(), tb.pool.Config().ConnConfig)
	if err != nil {
		tb.t.Fatal(err)
	}
	tb.t.Cleanup(func() { c.Close(context.Background()) }) //nolint:errcheck // nothing hangs on it
	return c
}
