package queue_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

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
	return value[bool](tb, `SELECT pg_sequence_last_value('notifyworker.sleepers') IS NOT NULL`)
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
	const wants, stops = `UPDATE notifyworker.workers SET wants_notify = true WHERE id = $1`, `UPDATE notifyworker.workers SET wants_notify = false WHERE id = $1`
	tb := newTable(t)
	tb.wantMayBe(true) // before any worker has said anything
	if tb.tells() {
		t.Error("a commit tells somebody though nobody is there")
	}
	tb = sleeping(t, map[string]bool{workerA: true, workerB: true})
	tb.wantMayBe(true)
	tb.exec(stops, workerA)
	tb.wantMayBe(true)
	if !tb.tells() {
		t.Error("a commit tells nobody though one sleeps")
	}
	tb.exec(stops, workerB)
	tb.wantMayBe(false)
	if tb.tells() {
		t.Error("a commit tells somebody though nobody wants it")
	}
	tb.exec(wants, workerA)
	tb.wantMayBe(true)
	if !tb.tells() {
		t.Error("a commit tells nobody though one sleeps again")
	}
	// Who has fallen silent counts for nothing, until it says that it lives.
	tb.exec(`UPDATE notifyworker.workers SET last_beat = clock_timestamp() - interval '61 s' WHERE id = $1`, workerA)
	tb.exec(`UPDATE notifyworker.workers SET last_beat = clock_timestamp() WHERE id = $1`, workerB)
	tb.wantMayBe(false)
	if _, err := tb.Beat(t.Context(), queue.Sign{}); err != nil { // workerA's
		t.Fatal(err)
	}
	tb.wantMayBe(true)
	// So it heals, whatever has been done by hand.
	tb.exec(`SELECT setval('notifyworker.sleepers', 1, false)`)
	if _, err := tb.Beat(t.Context(), queue.Sign{}); err != nil {
		t.Fatal(err)
	}
	tb.wantMayBe(true)
	tb.exec(stops, workerA)
	tb.exec(`SELECT setval('notifyworker.sleepers', 1)`)
	tb.exec(`UPDATE notifyworker.workers SET last_beat = clock_timestamp() WHERE id = $1`, workerA)
	tb.wantMayBe(false)
}

// A wish that is not committed yet is no wish that others can see, and yet nobody may say that there is none.
func TestWhoTakesItsWishBackWaitsForAWishUnderWay(t *testing.T) {
	for _, ends := range []struct {
		with string
		may  bool
	}{{"COMMIT", true}, {"ROLLBACK", false}} {
		t.Run(ends.with, func(t *testing.T) {
			tb := sleeping(t, map[string]bool{workerA: true, workerB: false})
			wish := tb.conn()
			run := func(conn *pgx.Conn, sql string) {
				t.Helper()
				if _, err := conn.Exec(context.Background(), sql); err != nil {
					t.Fatal(err)
				}
			}
			run(wish, `BEGIN; UPDATE notifyworker.workers SET wants_notify = true WHERE id = '`+workerB+`'`)
			done := make(chan error, 1)
			go func() {
				_, err := tb.WantNotify(context.Background(), false, false)
				done <- err
			}()
			tb.waitsFor(sleepersLock, done)
			run(wish, ends.with)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			tb.wantMayBe(ends.may)
		})
	}
}

// Likewise the other way round: a wish that comes while somebody clears it is set afterwards.
func TestAWishWaitsForWhoTakesTheLastOneBack(t *testing.T) {
	tb := sleeping(t, map[string]bool{workerA: true, workerB: false})
	back := tb.conn()
	if _, err := back.Exec(t.Context(), `BEGIN; UPDATE notifyworker.workers SET wants_notify = false WHERE id = '`+workerA+`'`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := tb.pool.Exec(context.Background(), `UPDATE notifyworker.workers SET wants_notify = true WHERE id = $1`, workerB)
		done <- err
	}()
	tb.waitsFor(sleepersLock, done)
	if _, err := back.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	tb.wantMayBe(true)
}

// A snapshot from before the lock would not see a wish that was committed meanwhile.
func TestAnOldSnapshotClearsNoWish(t *testing.T) {
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		tb := sleeping(t, map[string]bool{workerA: true, workerB: false})
		back := tb.conn()
		if _, err := back.Exec(t.Context(), `BEGIN ISOLATION LEVEL `+level+`; SELECT FROM notifyworker.workers`); err != nil {
			t.Fatal(err)
		}
		tb.exec(`UPDATE notifyworker.workers SET wants_notify = true WHERE id = $1`, workerB)
		if _, err := back.Exec(t.Context(), `UPDATE notifyworker.workers SET wants_notify = false WHERE id = '`+workerA+`'; COMMIT`); err != nil {
			t.Fatal(err)
		}
		tb.wantMayBe(true)
	}
}

// The sequence keeps what a transaction has done to it that fails; a wish that stays is said anew by the next beat.
func TestAWishThatWasTakenBackInVainIsSaidByTheNextBeat(t *testing.T) {
	tb := sleeping(t, map[string]bool{workerA: true})
	tb.exec(`BEGIN; UPDATE notifyworker.workers SET wants_notify = false; ROLLBACK`)
	if _, err := tb.Beat(t.Context(), queue.Sign{}); err != nil {
		t.Fatal(err)
	}
	tb.wantMayBe(true)
}
