package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

func TestAWorkerTakesOnlyWhatIsItsOwn(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	other := tb.other(tb.pool)
	tb.opens(other)
	takesNothing(t, other, id, id+1)
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks are held by a worker that has taken nothing", n)
	}
	tb.take(id)
	takesNothing(t, tb.Store, id+1)
	if n := tb.takenLocks(); n != 1 {
		t.Errorf("%d locks are held for one job", n)
	}
}

// Who locks another's job, and be it for a moment, keeps its owner from taking it: so none is locked on a forged notification's word.
func TestAJobThatIsNotTheWorkersIsNotLockedForAMoment(t *testing.T) {
	tb := newHandedTable(t)
	var sent queue.Sent
	cfg := tb.conn().Config()
	sent.By(cfg)
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // nothing hangs on it
	if err := tb.OpenHands(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	tb.wants(tb.Store)
	another, back := tb.handed("t"), tb.handed("t")
	tb.exec(`UPDATE notifyworker.jobs SET worker_id = $2::text::uuid WHERE id = $1`, another, workerB)
	tb.takesBack(1, back)
	for name, id := range map[string]int64{"it is another's": another, "it was taken back": back, "it is nobody's": 4711} {
		before := sent.Count()
		takesNothing(t, tb.Store, id)
		if n := sent.Count() - before; n != 2 {
			t.Errorf("%s: %d statements, want 2: a lock was had, and given back", name, n)
		}
	}
}

// A server may have other defaults, and statistics of an empty table.
func TestTheSessionOfTheHandsPlansByIndexAndEachStatementSeesWhatIsCommitted(t *testing.T) {
	tb := newTable(t)
	conn := tb.conn()
	if _, err := conn.Exec(t.Context(), `SET enable_seqscan = on; SET default_transaction_isolation = 'repeatable read'`); err != nil {
		t.Fatal(err)
	}
	if err := tb.OpenHands(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	var scans, level string
	if err := conn.QueryRow(t.Context(), `SELECT current_setting('enable_seqscan'), current_setting('transaction_isolation')`).Scan(&scans, &level); err != nil {
		t.Fatal(err)
	}
	if scans != "off" || level != "read committed" {
		t.Errorf("sequential scans are %s, and it is %s", scans, level)
	}
}

func TestTakingTellsHowMuchOfTheLeaseIsLeft(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() + interval '1 h'`)
	if left := tb.take(id)[0].Lease; left > time.Hour || left < 50*time.Minute {
		t.Errorf("%v is left, want an hour", left)
	}
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - interval '1 h'`)
	if left := tb.take(id)[0].Lease; left > -time.Hour {
		t.Errorf("%v is left, want an hour less than nothing", left)
	}
}

func TestAJobThatIsOverIsGivenBackByTheNextTake(t *testing.T) {
	tb := newHandedTable(t)
	a, b := tb.handed("t"), tb.handed("t")
	taken := tb.take(a, b)
	tb.Let(taken[0])
	if n := tb.takenLocks(); n != 2 {
		t.Errorf("%d locks, want both until the next take", n)
	}
	tb.givesBack()
	if n := tb.takenLocks(); n != 1 {
		t.Errorf("%d locks, want that of the job which is not over", n)
	}
	tb.take(a)
	tb.givesBack()
	if n := tb.takenLocks(); n != 2 {
		t.Errorf("%d locks, want 2: one that was taken anew was given back again", n)
	}
	tb.Let(taken[0])
	tb.givesBack()
	// One that was taken twice is its own until it is let go twice.
	again := tb.take(b)[0]
	tb.Let(again)
	tb.givesBack()
	if n := tb.takenLocks(); n != 1 {
		t.Errorf("%d locks, want 1", n)
	}
	tb.Let(taken[1])
	tb.givesBack()
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks, want none", n)
	}
}

func TestAWorkerWhoseSessionHasEndedTakesByANewOne(t *testing.T) {
	tb := newHandedTable(t)
	a := tb.handed("t")
	old := tb.take(a)[0]
	b := tb.handed("t")
	tb.endHands()
	if taken, again, err := tb.Take(t.Context(), b); err == nil || again || taken != nil {
		t.Fatalf("took %+v, again %v, %v by a session that has ended", taken, again, err)
	}
	tb.opens(tb.Store)
	tb.takesBack(2, a, b)
	tb.wants(tb.Store)
	tb.take(tb.handed("t"))
	tb.Let(old) // that lock went with its session
	tb.givesBack()
	if n := tb.takenLocks(); n != 1 {
		t.Errorf("%d locks, want that of the job which the new session has taken", n)
	}
}

// The server may take a connection to live on that its worker has lost. As long as it does, others take over what was handed to that
// session and is not locked: so another session's lock would be no more than as good as that session.
func TestAJobThatAnEarlierSessionWasHandedIsTakenBackAndNotTaken(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	tb.opens(tb.Store)
	if taken, again, err := tb.Take(t.Context(), id); err != nil || !again || taken != nil {
		t.Fatalf("took %+v, again %v, %v", taken, again, err)
	}
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks, want none", n)
	}
	tb.takesBack(1, id)
	tb.takesOver(tb.other(tb.pool), 0, 9, id)
}

// The locks of a session are not undone with the statement that took them.
func TestWhenTakingFailsNothingWasTaken(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	tb.exec(`ALTER TABLE notifyworker.jobs RENAME COLUMN trace_id TO trace`)
	if taken, again, err := tb.Take(t.Context(), id); err == nil || again || taken != nil {
		t.Fatalf("took %+v, again %v, %v", taken, again, err)
	}
	tb.exec(`ALTER TABLE notifyworker.jobs RENAME COLUMN trace TO trace_id`)
	if taken, again, err := tb.Take(t.Context(), id); err == nil || again || taken != nil {
		t.Errorf("took %+v, again %v, %v by the session that may have the lock", taken, again, err)
	}
	tb.opens(tb.Store)
	for again := []int64{id}; len(again) > 0; { // until the server has ended the session
		var js []queue.Job
		var err error
		if js, again, err = tb.TakeBack(t.Context(), tb.own(again...)); err != nil || len(js)+len(again) != 1 {
			t.Fatalf("took back %+v, again %d, %v", js, again, err)
		}
	}
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks, want none", n)
	}
}

func TestAWorkerWhoseSessionHasEndedIsHandedJobsAgainWhenItSaysSo(t *testing.T) {
	tb := newHandedTable(t)
	tb.endHands()
	if got := tb.status(value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('t')`)); got != "PENDING" {
		t.Errorf("it is %s, and nobody could take it over", got)
	}
	tb.opens(tb.Store)
	tb.wants(tb.Store)
	tb.take(tb.handed("t"))
}

// Whoever looks after a job holds its lock to the end of its transaction.
func TestAJobThatSomebodyLooksAfterIsAskedForAgain(t *testing.T) {
	for name, taken := range map[string]bool{"and takes over": true, "in vain": false} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t)
			a, b := tb.handed("t"), tb.handed("t")
			tx, err := tb.conn().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if js, err := tb.other(tx).TakeOver(t.Context(), []int64{a}, 1, 0); err != nil || len(js) != 1 {
				t.Fatal(js, err)
			}
			if got, again, err := tb.Take(t.Context(), a); err != nil || got != nil || !again {
				t.Fatalf("took %+v, again %v, %v", got, again, err)
			}
			if got, again, err := tb.TakeBack(t.Context(), tb.own(a, b)); err != nil || len(got) != 1 || got[0].ID != b || !slices.Equal(again, []int64{a}) {
				t.Fatalf("took back %+v, again %d, %v", got, again, err)
			}
			if taken {
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				takesNothing(t, tb.Store, a)
				tb.takesBack(0, a)
				return
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			tb.take(a)
		})
	}
}

func TestTwoSchemasOfOneDatabaseTakeEachItsOwn(t *testing.T) {
	db := pgtest.DB(t)
	if _, err := migrations.Up(t.Context(), db.Conn(t), migrations.Options{Schema: "second", Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
	first := newHandedTableIn(t, db)
	second := newHandedTableIn(t, db, func(c *queue.Config) { c.Schema = "second" })
	id := first.handed("t")
	if other := value[int64](second, `SELECT job_id FROM second.enqueue_job('t')`); other != id {
		t.Fatalf("the jobs are %d and %d, want one number", id, other)
	}
	first.take(id)
	third := second.other(second.pool, func(c *queue.Config) { c.Schema = "second" })
	if js, err := third.TakeOver(t.Context(), []int64{id}, 1, 0); err != nil || len(js) != 1 {
		t.Errorf("took over %+v, %v: that of the first schema was taken", js, err)
	}
	takesNothing(t, second.Store, id)
	second.wants(second.Store)
	second.take(value[int64](second, `SELECT job_id FROM second.enqueue_job('t')`)) // not even its lock is the other's
}

func TestMineIsWhatRunsForThisWorker(t *testing.T) {
	tb := newHandedTable(t)
	mine := func(want ...int64) {
		t.Helper()
		got, err := tb.Mine(t.Context())
		if err != nil || !slices.EqualFunc(got, want, func(o queue.Own, id int64) bool { return o.ID == id && o.Token == tb.token(id) }) {
			t.Errorf("got %v, %v, want %d", got, err, want)
		}
	}
	mine()
	a, b, c := tb.handed("t"), tb.handed("t"), tb.handed("t")
	mine(a, b, c)
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE id = $1`, b)
	mine(a, c)
	if js, err := tb.other(tb.pool).TakeOver(t.Context(), []int64{a}, 1, 0); err != nil || len(js) != 1 {
		t.Fatal(js, err)
	}
	mine(c)
	h := tb.take(c)[0]
	mine(c)
	if _, err := tb.Complete(t.Context(), []queue.Completion{{ID: c, Token: h.Token}}); err != nil {
		t.Fatal(err)
	}
	tb.exec(`SELECT notifyworker.enqueue_job('t', delay => '1 h')`)
	mine()
}
