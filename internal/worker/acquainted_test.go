package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
)

// acquainted waits until four listen, and each of these knows the four.
func (f *fleet) acquainted() {
	f.tb.Helper()
	ctx := context.Background()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		// All give a sign of life, but one that tells them nothing.
		if _, err := f.pool.Exec(ctx, "UPDATE notifyworker.workers SET last_beat = clock_timestamp()"); err != nil {
			f.tb.Fatal(err)
		}
		var wanting []string
		if err := f.pool.QueryRow(ctx, "SELECT coalesce(array_agg(id::text ORDER BY id), '{}') FROM notifyworker.workers WHERE wants_notify").Scan(&wanting); err != nil {
			f.tb.Fatal(err)
		}
		listening, know := 0, 0
		for _, m := range f.members {
			if m.l.Hearing() == listen.Listening {
				listening++
				if slices.Equal(slices.Sorted(slices.Values(m.w.Roster())), wanting) {
					know++
				}
			}
		}
		if listening == 4 && know == 4 && len(wanting) == 4 {
			return
		}
		if time.Now().After(deadline) {
			f.tb.Fatalf("%d listen, %d want to be told, and %d know it", listening, len(wanting), know)
		}
	}
}

// Those who listen know each other, without waiting for a beat: here none comes by itself after the first.
func TestWhoListensKnowsWhoElseDoes(t *testing.T) {
	f := newFleet(t)
	f.beat = time.Hour
	defer f.leave()
	for range 10 {
		f.join(migrations.DefaultSchema, 1, func(context.Context, queue.Job) queue.Outcome { return queue.Outcome{} })
	}
	f.acquainted()
	f.endAListener()
	f.acquainted()
	if _, err := f.pool.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM notifyworker.seat_locks() WHERE granted"); err != nil {
		t.Fatal(err)
	}
	f.acquainted()
}
