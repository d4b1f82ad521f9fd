package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
)

func TestCommitsNotifyOnlyWhileAWorkerWantsIt(t *testing.T) {
	tb := newTable(t)
	listener, err := tb.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Release()
	if _, err := listener.Exec(t.Context(), `LISTEN notifyworker; LISTEN echo`); err != nil {
		t.Fatal(err)
	}
	// heard enqueues, then sends a marker: what came before it was sent by the enqueue.
	heard := func(what string) bool {
		t.Helper()
		tb.exec(`SELECT notifyworker.enqueue_job($1)`, what)
		tb.exec(`SELECT pg_notify('echo', $1)`, what)
		n, err := listener.Conn().WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Channel == "echo" {
			return false
		}
		if _, err = listener.Conn().WaitForNotification(t.Context()); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if _, err := tb.WantNotify(t.Context(), true, false); !errors.Is(err, queue.ErrUnregistered) {
		t.Fatalf("unregistered: %v", err)
	}
	if err := tb.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
		t.Fatal(err)
	}
	if heard("nobody wants") {
		t.Error("notified although nobody wants it")
	}
	if _, err := tb.WantNotify(t.Context(), true, false); err != nil {
		t.Fatal(err)
	}
	if !heard("one wants") {
		t.Error("not notified although one wants it")
	}
	tb.exec(`UPDATE notifyworker.workers SET last_beat = now() - interval '1 hour'`)
	if heard("a dead one wanted") {
		t.Error("notified for a dead worker")
	}
	if _, err := tb.WantNotify(t.Context(), true, false); err != nil {
		t.Fatal(err)
	}
	if !heard("it was frozen for an hour") {
		t.Error("not notified although one wants it who said so a moment ago")
	}
	tb.exec(`UPDATE notifyworker.workers SET last_beat = now() - interval '1 hour'`)
	if f, err := tb.Beat(t.Context(), queue.Sign{Busy: 2, EchoChannel: "echo", Nonce: "nonce"}); err != nil || len(f.Wanting) > 1 {
		t.Fatalf("got %v, %v", f, err)
	}
	if f, err := tb.Beat(t.Context(), queue.Sign{Busy: 2}); err != nil || f.Alive < 1 || !slices.Equal(f.Wanting, []string{workerA}) {
		t.Fatalf("the fleet is %v, %v", f, err)
	}
	if n, err := listener.Conn().WaitForNotification(t.Context()); err != nil || n.Payload != "nonce" {
		t.Fatalf("echo: %v, %v", n, err)
	}
	if err := tb.Deregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tb.Beat(t.Context(), queue.Sign{}); !errors.Is(err, queue.ErrUnregistered) {
		t.Fatalf("deregistered: %v", err)
	}
}

// A worker in reserve hears nothing itself: its beat tells it when those who should have heard have fallen silent.
func TestABeatTellsHowManyLiveAndWhatNobodyHears(t *testing.T) {
	tb := newTable(t)
	other, err := queue.New(queue.Config{DB: tb.pool, WorkerID: workerB})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*queue.Store{tb.Store, other} {
		if err := s.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
			t.Fatal(err)
		}
	}
	const silent = `UPDATE notifyworker.workers SET last_beat = clock_timestamp() - $1 * interval '1 s' WHERE id = '` + workerB + `'`
	beat := func(when string, reserve bool, alive int, unheard bool) {
		t.Helper()
		if f, err := tb.Beat(t.Context(), queue.Sign{Reserve: reserve}); err != nil || f.Alive != alive || f.Unheard != unheard {
			t.Errorf("%s: %+v, %v; want %d alive and unheard %v", when, f, err, alive, unheard)
		}
	}
	beat("no job", true, 2, false)
	tb.exec(`SELECT notifyworker.enqueue_job('t', delay => '1 hour')`)
	beat("nothing is due", true, 2, false)
	tb.exec(`INSERT INTO notifyworker.jobs (type, run_after) VALUES ('t', now() - interval '1 s')`)
	beat("nobody wants to be told", true, 2, true)
	beat("it hears for itself", false, 2, false)
	if _, err := other.WantNotify(t.Context(), true, false); err != nil {
		t.Fatal(err)
	}
	tb.exec(silent, -60) // ahead, so that this machine may be slow
	beat("another wants to be told", true, 2, false)
	tb.exec(silent, 7)
	beat("that one has fallen silent", true, 2, true)
	tb.exec(silent, 16)
	beat("and is dead", true, 1, true)
}

// A beat may tell all who listen for jobs something that is no job.
func TestABeatTellsThoseWhoListen(t *testing.T) {
	tb := newTable(t)
	if err := tb.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
		t.Fatal(err)
	}
	ear := tb.conn()
	if _, err := ear.Exec(t.Context(), `LISTEN notifyworker`); err != nil {
		t.Fatal(err)
	}
	for _, notice := range []string{"", "hark", ""} {
		if _, err := tb.Beat(t.Context(), queue.Sign{Notice: notice, EchoChannel: "echo"}); err != nil {
			t.Fatal(err)
		}
	}
	tb.exec(`SELECT pg_notify('notifyworker', 'the end')`)
	for _, want := range []string{"hark", "the end"} {
		n, err := ear.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload != want {
			t.Fatalf("heard %q, want %q", n.Payload, want)
		}
	}
}

func TestAPayloadSaysWhatToLookForAndWhen(t *testing.T) {
	tb := newTable(t)
	if err := tb.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := tb.WantNotify(t.Context(), true, false); err != nil {
		t.Fatal(err)
	}
	ear := tb.conn()
	if _, err := ear.Exec(t.Context(), `LISTEN notifyworker`); err != nil {
		t.Fatal(err)
	}
	type payload struct {
		Type, Catalog string
		Due           int64
	}
	heard := func(sql string) (p payload) {
		t.Helper()
		tb.exec(sql)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := ear.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if err := json.Unmarshal([]byte(n.Payload), &p); err != nil {
			t.Fatalf("%s: %v", n.Payload, err)
		}
		return p
	}
	if p := heard(`SELECT notifyworker.enqueue_job('now')`); p != (payload{Type: "now"}) {
		t.Errorf("got %+v", p)
	}
	p := heard(`SELECT notifyworker.enqueue_job('later', delay => '1 hour')`)
	if in := time.Until(time.UnixMilli(p.Due)); p.Type != "later" || in < 30*time.Minute || in > 90*time.Minute {
		t.Errorf("got %+v", p)
	}
	// The longest key that there can be has room; what is longer all the same is "look at everything".
	if p := heard(`SELECT notifyworker.enqueue_price_refresh(repeat(chr(1), 1024), '["p"]')`); p.Catalog != strings.Repeat("\x01", 1024) {
		t.Errorf("got %+v", p)
	}
	if p := heard(`SELECT notifyworker.announce('t', NULL, repeat('x', 8000), NULL)`); p != (payload{}) {
		t.Errorf("got %+v", p)
	}
}

func TestTheBarrierSaysWhenACommitStaysOpen(t *testing.T) {
	tb := newTable(t)
	if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
		t.Fatalf("free barrier: %v, %v", ok, err)
	}
	tx, err := tb.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE; SELECT notifyworker.enqueue_job('x')`); err != nil {
		t.Fatal(err)
	}
	if ok, err := tb.Barrier(t.Context()); err != nil || ok {
		t.Fatalf("held barrier: %v, %v", ok, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
		t.Fatalf("free again: %v, %v", ok, err)
	}
}

func TestDepthAndDurations(t *testing.T) {
	tb := newTable(t)
	tb.enqueue("c", `["p1", "p2"]`)
	tb.exec(`SELECT notifyworker.enqueue_job('t', delay => '1 h'), notifyworker.enqueue_job('t')`)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, started_at, finished_at, duration_ms)
	         SELECT 't', CASE WHEN g = 3 THEN 'FAILED' ELSE 'COMPLETED' END, now(), now(), g * 100 FROM generate_series(1, 3) g`)
	depth, err := tb.Depth(t.Context())
	if err != nil || len(depth) != 2 {
		t.Fatalf("got %+v, %v", depth, err)
	}
	if d := depth[0]; d.Type != queue.TypePriceRefresh || d.Pending != 1 || d.Due != 1 || d.WaitingIDs != 2 {
		t.Errorf("got %+v", d)
	}
	if d := depth[1]; d.Type != "t" || d.Pending != 2 || d.Due != 1 || d.Running != 0 {
		t.Errorf("got %+v", d)
	}
	durations, err := tb.Durations(t.Context(), time.Hour)
	if err != nil || len(durations) != 1 {
		t.Fatalf("got %+v, %v", durations, err)
	}
	if d := durations[0]; d.Runs != 3 || d.P50 != 200*time.Millisecond || d.P95 != 290*time.Millisecond || d.Failures != 1 {
		t.Errorf("got %+v", d)
	}
}

func TestDurationsAreThoseOfTheLastJobsThatEnded(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, started_at, finished_at, duration_ms)
	         SELECT CASE WHEN g <= $1 THEN 'recent' ELSE 'before' END, 'COMPLETED', at, at, 1000
	           FROM generate_series(1, $1::int + 100) g, LATERAL (SELECT now() - g * interval '1 ms' AS at) ended`, queue.MostDurations)
	durations, err := tb.Durations(t.Context(), time.Hour)
	if err != nil || len(durations) != 1 || durations[0].Type != "recent" || durations[0].Runs != queue.MostDurations || durations[0].P95 != time.Second {
		t.Fatalf("got %+v, %v", durations, err)
	}
	if ago := time.Since(durations[0].Since); ago < queue.MostDurations*time.Millisecond {
		t.Errorf("the first of them ended %v ago", ago)
	}
}

func TestSweepRepairsAdditionsWhoseJobWasDeletedByHand(t *testing.T) {
	tb := newTable(t)
	tb.enqueue("c", `["p1"]`)
	tb.enqueue("c", `["p2"]`)
	if r, err := tb.Sweep(t.Context()); err != nil || r.Repaired != 0 {
		t.Fatalf("nothing is broken: %+v, %v", r, err)
	}
	tb.exec(`DELETE FROM notifyworker.jobs`)
	if r, err := tb.Sweep(t.Context()); err != nil || r.Repaired != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if j := tb.one(); string(j.Config) != `{"catalogId": "c", "productIds": ["p2"]}` {
		t.Errorf("got %s", j.Config)
	}
}

func TestAWorkersSessionIsHardenedWhateverTheRolesDefaults(t *testing.T) {
	d := pgtest.DB(t)
	c := d.Conn(t)
	if _, err := c.Exec(t.Context(), `ALTER DATABASE `+d.Name+` SET default_transaction_isolation = 'serializable'`); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, d.URL)
	if _, err := s.Reserve(t.Context(), 1); err != nil {
		t.Errorf("hardened: %v", err)
	}
	plain, err := queue.New(queue.Config{DB: d.Pool(t), WorkerID: workerA})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Reserve(t.Context(), 1); !queue.SetupProblem(err) || queue.Advice(err) == "" {
		t.Errorf("a serializable session: %v", err)
	}
}

func TestAReadOnlyServerIsRetryableAndItsConnectionsAreDropped(t *testing.T) {
	d := pgtest.DB(t)
	s := openStore(t, d.URL)
	operator := d.Conn(t)
	if _, err := operator.Exec(t.Context(), `ALTER DATABASE `+d.Name+` SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(t.Context(), queue.WorkerInfo{}); !queue.ReadOnly(err) || !queue.Retryable(err) || queue.Advice(err) == "" {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Reserve(t.Context(), 1); !queue.ReadOnly(err) {
		t.Fatalf("got %v", err)
	}
	if _, err := operator.Exec(t.Context(), `ALTER DATABASE `+d.Name+` SET default_transaction_read_only = off`); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(t.Context(), queue.WorkerInfo{Slots: 1}); err != nil {
		t.Errorf("writable again: %v", err)
	}
}
