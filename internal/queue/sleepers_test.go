package queue_test

import (
	"context"
	"testing"

	"notifyworker/internal/queue"
)

const sleepersLock = 1853292553

// sleeping is a table with these workers, of which those that want to be told are said to.
func sleeping(t *testing.T, wants map[string]bool) table {
	t.Helper()
	tb := newTable(t)
	for id, w := range wants {
		s := tb.other(tb.pool, func(c *queue.Config) { c.WorkerID = id })
		if err := s.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
			t.Fatal(err)
		}
		tb.exec(`UPDATE notifyworker.workers SET wants_notify = $2 WHERE id = $1`, id, w)
	}
	return tb
}

// mayBe says whether commits have to look who wants to be told.
func (tb table) mayBe() bool {
	tb.t.Helper()
	return value[bool](tb, `SELECT pg_sequence_last_value('notifyworker.no_sleepers') IS NULL`)
}

// stops takes a worker's wish back, as its process does.
func (tb table) stops(id string) {
	tb.t.Helper()
	tb.exec(`UPDATE notifyworker.workers SET wants_notify = false WHERE id = $1`, id)
	tb.nobody()
}

// nobody lets commits know that nobody sleeps, if that is so.
func (tb table) nobody() {
	tb.t.Helper()
	if err := tb.NobodySleeps(context.Background()); err != nil {
		tb.t.Fatal(err)
	}
}

// wantMayBe wants commits to look who wants to be told, or not.
func (tb table) wantMayBe(want bool) {
	tb.t.Helper()
	if tb.mayBe() != want {
		tb.t.Errorf("somebody may sleep: %v, want %v", !want, want)
	}
}

// tells says whether a commit notifies.
func (tb table) tells() bool {
	tb.t.Helper()
	ear := tb.listen()
	tb.exec(`SELECT notifyworker.enqueue_job('t')`)
	return len(ear.heard()) > 0
}

func TestCommitsLookForSleepersOnlyWhileThereMayBeOne(t *testing.T) {
	tb := newTable(t)
	tb.wantMayBe(true) // before any worker has said anything
	if tb.tells() {
		t.Error("a commit tells somebody though nobody is there")
	}
	tb = sleeping(t, map[string]bool{workerA: true, workerB: true})
	tb.nobody()
	tb.wantMayBe(true)
	tb.stops(workerA)
	tb.wantMayBe(true)
	if !tb.tells() {
		t.Error("a commit tells nobody though one sleeps")
	}
	tb.stops(workerB)
	tb.wantMayBe(false)
	if tb.tells() {
		t.Error("a commit tells somebody though nobody wants it")
	}
	tb.exec(`UPDATE notifyworker.workers SET wants_notify = true WHERE id = $1`, workerA)
	tb.wantMayBe(true)
	if !tb.tells() {
		t.Error("a commit tells nobody though one sleeps again")
	}
	// Who has fallen silent counts for nothing, until it says that it lives.
	tb.exec(`UPDATE notifyworker.workers SET last_beat = clock_timestamp() - interval '61 s' WHERE id = $1`, workerA)
	tb.nobody()
	tb.wantMayBe(false)
	if _, err := tb.Beat(t.Context(), queue.Sign{}); err != nil { // workerA's
		t.Fatal(err)
	}
	tb.wantMayBe(true)
	if !tb.tells() {
		t.Error("a commit tells nobody though one that sleeps lives again")
	}
	// So it heals, too, what has been done by hand.
	tb.exec(`SELECT setval('notifyworker.no_sleepers', 7)`)
	if _, err := tb.Beat(t.Context(), queue.Sign{}); err != nil {
		t.Fatal(err)
	}
	tb.wantMayBe(true)
	// And what says nothing is looked after.
	tb.stops(workerA)
	tb.wantMayBe(false)
	tb.exec(`ALTER SEQUENCE notifyworker.no_sleepers RESTART`)
	tb.wantMayBe(true)
}

// A wish that is not committed yet can't be seen by others, and yet nobody says that there is none.
func TestNobodySaysThatNobodySleepsWhileAWishIsUnderWay(t *testing.T) {
	for _, ends := range []struct {
		with string
		may  bool
	}{{"COMMIT", true}, {"ROLLBACK", false}} {
		t.Run(ends.with, func(t *testing.T) {
			tb := sleeping(t, map[string]bool{workerA: true, workerB: false})
			tb.stops(workerA)
			tb.wantMayBe(false)
			wish := tb.conn()
			run := func(sql string) {
				t.Helper()
				if _, err := wish.Exec(context.Background(), sql); err != nil {
					t.Fatal(err)
				}
			}
			run(`BEGIN; UPDATE notifyworker.workers SET wants_notify = true WHERE id = '` + workerB + `'`)
			tb.wantMayBe(true) // at once: the commits that begin from now on look
			tb.nobody()        // and doesn't wait
			tb.wantMayBe(true)
			run(ends.with)
			tb.nobody()
			tb.wantMayBe(ends.may)
		})
	}
}

// A wish that comes while somebody says that nobody sleeps is said afterwards.
func TestAWishWaitsForWhoSaysThatNobodySleeps(t *testing.T) {
	tb := sleeping(t, map[string]bool{workerA: true, workerB: false})
	tb.exec(`UPDATE notifyworker.workers SET wants_notify = false`)
	says := tb.conn()
	if _, err := says.Exec(t.Context(), `BEGIN; SELECT notifyworker.nobody_sleeps()`); err != nil {
		t.Fatal(err)
	}
	tb.wantMayBe(false)
	done := make(chan error, 1)
	go func() {
		_, err := tb.pool.Exec(context.Background(), `UPDATE notifyworker.workers SET wants_notify = true WHERE id = $1`, workerB)
		done <- err
	}()
	tb.waitsFor(sleepersLock, done)
	if _, err := says.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	tb.wantMayBe(true)
}

// What a transaction has written may be undone, and what an old snapshot does not see may have been committed.
func TestWhoCannotKnowDoesNotSayThatNobodySleeps(t *testing.T) {
	for name, sql := range map[string]string{
		"it took the wish back itself": `BEGIN; UPDATE notifyworker.workers SET wants_notify = false; SELECT notifyworker.nobody_sleeps(); ROLLBACK`,
		"it has written something":     `BEGIN; UPDATE notifyworker.workers SET busy = 1; SELECT notifyworker.nobody_sleeps(); COMMIT`,
		"repeatable read":              `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.nobody_sleeps(); COMMIT`,
		"serializable":                 `BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT notifyworker.nobody_sleeps(); COMMIT`,
	} {
		t.Run(name, func(t *testing.T) {
			tb := sleeping(t, map[string]bool{workerA: name == "it took the wish back itself"})
			tb.exec(sql)
			tb.wantMayBe(true)
		})
	}
}
