package queue_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
)

func TestEachStatementIsCountedAndEachPing(t *testing.T) {
	var sent queue.Sent
	db := pgtest.DB(t)
	pool, err := queue.OpenCountedPool(t.Context(), db.URL, "test", 2, &sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	counts := func(what string, want uint64, do func() error) {
		t.Helper()
		before := sent.Count()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if n := sent.Count() - before; n != want {
			t.Errorf("%s: %d statements, want %d", what, n, want)
		}
	}
	one := func() error { _, err := pool.Exec(t.Context(), "SELECT $1::int", 1); return err }
	counts("a statement, and what its connection needs", 1, one)
	counts("a statement", 1, one)
	counts("a transaction", 3, func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "SELECT 1"); return err })
	})
	store, err := queue.New(queue.Config{DB: pool, WorkerID: "00000000-0000-4000-8000-000000000001"})
	if err != nil {
		t.Fatal(err)
	}
	counts("a look", 1, func() error { _, err := store.Reserve(t.Context(), 8); return err })
	counts("nothing", 0, func() error { return nil })
	<-time.After(1100 * time.Millisecond) // so long it has to be idle, by the clock of the machine
	pings := sent.Pings()
	counts("a statement on an idle connection", 1, one)
	if n := sent.Pings() - pings; n != 1 {
		t.Errorf("an idle connection was pinged %d times", n)
	}

	cfg, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	sent.By(cfg)
	conn, err := pgx.ConnectConfig(t.Context(), cfg.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	counts("a connection of its own", 1, func() error { _, err := conn.Exec(t.Context(), "LISTEN here"); return err })
}
