package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// B40: somebody's transaction keeps vacuum from removing anything.
func TestB40AForeignSnapshotIsNamedAndSlowsNothingDown(t *testing.T) {
	r := onDatabase(t)
	p := r.worker()
	reader, err := r.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	if _, err := reader.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
		t.Fatal(err)
	}
	defer reader.Exec(context.Background(), "ROLLBACK") //nolint:errcheck // only read from
	load := r.clients(6, 200, time.Millisecond)
	time.Sleep(long(8 * time.Second))
	load.stop()
	r.settle(20 * time.Second)
	for i := range 3 {
		atMost(t, "a recomputation with all dead rows in the way", r.pickUp(10*time.Second, "c", fmt.Sprintf("p%d", i)), time.Second)
	}
	p.shows("notifyworker_oldest_snapshot_pid", float64(reader.Conn().PgConn().PID()))
	if *soak > time.Minute {
		p.await(0, time.Minute, "who pins vacuum", func(e entry) bool { return e.number("pid") == int64(reader.Conn().PgConn().PID()) })
	}
	t.Logf("%d dead rows", ask[int](r, "SELECT coalesce(sum(n_dead_tup), 0)::int FROM pg_stat_user_tables WHERE schemaname = 'notifyworker'"))
	r.settle(20 * time.Second)
	r.judge(load)
}

// B41: a long history makes no question slow.
func TestB41QuestionsDoNotReadTheHistory(t *testing.T) {
	r := onDatabase(t)
	n := times(200_000, 5_000_000)
	r.slowly(`INSERT INTO notifyworker.jobs (type, status, started_at, finished_at, duration_ms, created_at, attempts)
		SELECT 'report', 'COMPLETED', at, at, 1, at, 1 FROM (SELECT now() - interval '2 hours' - n * interval '1 s' AS at FROM generate_series(1, $1) n) x`, n)
	r.slowly("VACUUM ANALYZE notifyworker.jobs")
	for range 20 {
		r.enqueue("waits", fmt.Sprint("p", time.Now().UnixNano()))
	}
	asker := r.shared.Conn(t)
	store, err := queue.New(queue.Config{DB: asker, WorkerID: "00000000-0000-0000-0000-000000000001"})
	if err != nil {
		t.Fatal(err)
	}
	// The asker's own session alone, which tells its scans at once when it is told to.
	scans := func() (n int) {
		t.Helper()
		_, err := asker.Exec(t.Context(), "SELECT pg_stat_force_next_flush()")
		if err == nil {
			err = asker.QueryRow(t.Context(), `SELECT pg_stat_get_numscans('notifyworker.jobs'::regclass)`).Scan(&n)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r.db.Reset()
	r.until(10*time.Second, "no other session is left that may have scans to tell", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid NOT IN (pg_backend_pid(), $1))`, asker.PgConn().PID())
	before := scans()
	for what, f := range map[string]func(context.Context) error{
		"depth":     func(ctx context.Context) error { _, err := store.Depth(ctx); return err },
		"durations": func(ctx context.Context) error { _, err := store.Durations(ctx, time.Hour); return err },
		"reserve":   func(ctx context.Context) error { _, err := store.Reserve(ctx, 0); return err },
	} {
		began := time.Now()
		if err := f(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		atMost(t, fmt.Sprintf("%s beside %d finished jobs", what, n), time.Since(began), 500*time.Millisecond)
	}
	if after := scans(); after > before {
		t.Errorf("the whole table was read %d times", after-before)
	}
	p := r.worker()
	began := time.Now()
	p.metric("notifyworker_workers_alive")
	atMost(t, "a scrape of all metrics", time.Since(began), 2*time.Second)
	p.shows("notifyworker_workers_alive", 1)
}

// slowly runs SQL that may take minutes.
func (r *rig) slowly(sql string, args ...any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := r.db.Exec(ctx, sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// B26: a NOTIFY serialises commits, so none is sent that nobody waits for.
func TestB26OnlyWhatSomebodyWaitsForNotifies(t *testing.T) {
	r := onDatabase(t)
	r.exec("INSERT INTO notifyworker.workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 1, 'v', 1, true)")
	conn := r.shared.Conn(t)
	if _, err := conn.Exec(t.Context(), "LISTEN notifyworker"); err != nil {
		t.Fatal(err)
	}
	heard := func() (n int) {
		t.Helper()
		// What was sent before this one has been received before it.
		if _, err := conn.Exec(t.Context(), "SELECT pg_notify('notifyworker', 'end')"); err != nil {
			t.Fatal(err)
		}
		for {
			note, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if note.Payload == "end" {
				return n
			}
			n++
		}
	}
	send := func(catalog string, n int) {
		for i := range n {
			r.exec("SELECT notifyworker.enqueue_price_refresh($1, jsonb_build_array($2::text), delay => interval '1 hour')", catalog, fmt.Sprint(i))
		}
	}
	send("c", 1)
	if n := heard(); n != 1 {
		t.Errorf("a new job sent %d notifications, want 1", n)
	}
	send("c", 50)
	if n := heard(); n != 0 {
		t.Errorf("50 additions to a waiting job sent %d notifications, want none", n)
	}
	r.exec("UPDATE notifyworker.workers SET wants_notify = false")
	send("d", 1)
	if n := heard(); n != 0 {
		t.Errorf("a new job sent %d notifications while nobody wants any", n)
	}
	// A client whose snapshot may be too old to know notifies anyway.
	err := pgx.BeginTxFunc(t.Context(), r.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT notifyworker.enqueue_job('other')")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := heard(); n != 1 {
		t.Errorf("a job of a REPEATABLE READ client sent %d notifications, want 1", n)
	}
}
