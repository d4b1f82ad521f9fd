package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

func (tb table) token(id int64) string {
	tb.t.Helper()
	return value[string](tb, `SELECT coalesce(lock_token::text, '') FROM notifyworker.jobs WHERE id = $1`, id)
}

func TestAJobThatIsTakenBackIsAsIfItHadBeenReserved(t *testing.T) {
	tb := newHandedTable(t, func(c *queue.Config) {
		c.Types = map[string]queue.TypeSettings{"": {Lease: 20 * time.Second}, "slow": {Lease: time.Hour}}
	})
	for kind, lease := range map[string]time.Duration{"t": 20 * time.Second, "slow": time.Hour} {
		id := value[int64](tb, `INSERT INTO notifyworker.jobs (type, config, attempts) VALUES ($1, '{"n": 1}', 4) RETURNING id`, kind)
		tb.runsFor(workerA, id)
		tb.exec(`UPDATE notifyworker.jobs SET started_at = started_at - interval '5 s', lease_expires_at = lease_expires_at - interval '5 s' WHERE id = $1`, id)
		old := tb.token(id)
		j := tb.takesBack(1, id)[0]
		tb.runsFor(workerA, id)
		if j.ID != id || j.Type != kind || string(j.Config) != `{"n": 1}` || j.Attempt != 5 || j.Token == old || j.Token[14] != '4' || j.LeaseUntil.Sub(j.StartedAt) != lease ||
			time.Since(j.StartedAt) > 4*time.Second || j.Token != tb.token(id) {
			t.Errorf("took back %+v", j)
		}
		if js := tb.takesOver(tb.other(tb.pool), 0, 9, id); len(js) > 0 {
			t.Errorf("somebody took it over: %+v", js)
		}
		if c, err := tb.Complete(t.Context(), []queue.Completion{{ID: id, Token: j.Token}}); err != nil || !slices.Equal(c.Done, []int64{id}) {
			t.Errorf("it could not be concluded: %+v, %v", c, err)
		}
	}
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

func TestWhatIsTakenBackIsTheWorkersAndHasNotBeenTaken(t *testing.T) {
	tb := newHandedTable(t)
	taken, lies, over := tb.handed("t"), tb.handed("t"), tb.handed("t")
	tb.take(taken)
	h := tb.take(over)[0]
	if _, err := tb.Complete(t.Context(), []queue.Completion{{ID: over, Token: h.Token}}); err != nil {
		t.Fatal(err)
	}
	before := tb.token(taken)
	js, again, err := tb.TakeBack(t.Context(), tb.own(taken, lies, over, 4711))
	if err != nil || len(js) != 1 || js[0].ID != lies || !slices.Equal(again, []int64{taken}) || tb.token(taken) != before {
		t.Errorf("took back %+v, again %d, %v, want job %d", js, again, err, lies)
	}
	other := tb.other(tb.pool)
	if js, again, err := other.TakeBack(t.Context(), tb.own(taken, lies, over)); err != nil || len(js)+len(again) > 0 {
		t.Errorf("another worker took back %+v, again %d, %v", js, again, err)
	}
}

// A reservation's answer may be lost on its way.
func TestWhatWasReservedAndNotAnsweredIsTakenBack(t *testing.T) {
	tb := newHandedTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t', delay => '1 h')`)
	tb.exec(`UPDATE notifyworker.jobs SET run_after = now()`)
	j := tb.one()
	if back := tb.takesBack(1, j.ID)[0]; back.Attempt != j.Attempt || back.Token == j.Token {
		t.Errorf("took back %+v, reserved %+v", back, j)
	}
}

func TestTakingBackWaitsForNobodyAndOneThatIsRefusedHoldsUpNoOther(t *testing.T) {
	tb := newHandedTable(t)
	a, b, c := tb.handed("t"), tb.handed("t"), tb.handed("t")
	tb.exec(fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = %d THEN RAISE EXCEPTION 'not on Mondays'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`, b))
	tb.locked(fmt.Sprintf(`SELECT FROM notifyworker.jobs WHERE id = %d`, a), func() {
		js, again, err := tb.TakeBack(t.Context(), tb.own(a, b, c))
		if err != nil || len(js) != 1 || js[0].ID != c || !slices.Equal(again, []int64{a, b}) {
			t.Errorf("took back %+v, again %d, %v, want job %d", js, again, err, c)
		}
	})
	tb.takesBack(1, a)
}

// From when it began to when it comes to a job, that may have become another's. So it locks first and looks then.
func TestAJobThatWasTakenOverMeanwhileIsNotTakenBack(t *testing.T) {
	tb := newHandedTable(t)
	a, b := tb.handed("t"), tb.handed("t")
	tb.exec(fmt.Sprintf(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1, 1); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.id = %d) EXECUTE FUNCTION slow()`, a))
	tx, err := tb.conn().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1, 1)`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		js, again, err := tb.TakeBack(t.Context(), tb.own(a, b))
		if err == nil && (len(js) != 1 || js[0].ID != a || len(again) > 0) {
			err = fmt.Errorf("took back %+v, again %d, want job %d", js, again, a)
		}
		done <- err
	}()
	tb.waitsFor(1, done)
	tb.takesOver(tb.other(tb.pool), 1, 1, b)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	tb.runsFor(workerB, b)
}

// waitsFor returns when somebody waits for an advisory lock of this class, and fails when what should wait is done.
func (tb table) waitsFor(class int, done <-chan error) {
	tb.t.Helper()
	for deadline := time.Now().Add(time.Minute); !value[bool](tb, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, class); {
		if len(done) > 0 || time.Now().After(deadline) {
			tb.t.Fatalf("it does not wait for lock %d", class)
		}
	}
}

// committing is a transaction that has handed over a job, as in its commit.
func (tb table) committing() (tx pgx.Tx, id int64) {
	tb.t.Helper()
	tx, err := tb.conn().Begin(tb.t.Context())
	if err != nil {
		tb.t.Fatal(err)
	}
	if err := tx.QueryRow(tb.t.Context(), `SELECT job_id FROM notifyworker.enqueue_job('t')`).Scan(&id); err != nil {
		tb.t.Fatal(err)
	}
	if _, err := tx.Exec(tb.t.Context(), `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
		tb.t.Fatal(err)
	}
	return tx, id
}

func TestWhoHasHungUpWaitsForItsSessionAndForTheCommitsUnderWay(t *testing.T) {
	tb := newHandedTable(t)
	conn := tb.opens(tb.Store)
	tb.wants(tb.Store)
	tx, id := tb.committing()
	done := make(chan error, 1)
	wait := tb.HungUp()
	go func() { done <- wait(t.Context()) }()
	tb.waitsFor(1853292549, done)
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tb.waitsFor(1853292547, done)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if mine, err := tb.Mine(t.Context()); err != nil || len(mine) != 1 || mine[0].ID != id {
		t.Errorf("it has %+v, %v, want job %d", mine, err, id)
	}
	tb.takesBack(1, id)
}

// A statement for each would cost more than the locks do.
func TestLocksOfJobsThatAreOverAreGivenBackManyAtOnce(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	tb.LetAsUsual()
	for n := range 16 {
		tb.Let(tb.take(id)[0])
		if locks := tb.takenLocks(); locks != 1 {
			t.Fatalf("%d locks after %d takes of one job", locks, n+1)
		}
	}
	takesNothing(t, tb.Store, 4711)
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// A synchronous standby may be slow, say.
func TestWhoHasHungUpWaitsAlsoForACommitThatTakesLong(t *testing.T) {
	tb := newHandedTable(t)
	conn := tb.opens(tb.Store)
	tb.wants(tb.Store)
	tx, _ := tb.committing()
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait, done := tb.HungUp(), make(chan error, 1)
	go func() { done <- wait(t.Context()) }()
	select {
	case err := <-done:
		t.Errorf("it waited no longer: %v", err)
	case <-time.After(600 * time.Millisecond): // of the one wait that a sleeper has for such a commit
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if mine, err := tb.Mine(t.Context()); err != nil || len(mine) != 1 {
		t.Errorf("it has %+v, %v, want the job", mine, err)
	}
}

// Whoever had the job when it was handed over may not have given the lock back yet.
func TestWhatWasNotHandedOverIsTakenBackWhoeverHasTheLock(t *testing.T) {
	tb := newHandedTable(t)
	first := tb.take(tb.handed("t"))[0]
	tb.exec(`SELECT notifyworker.requeue(id, 'released', lock_token) FROM notifyworker.jobs`)
	other := tb.other(tb.pool)
	r, err := other.Reserve(t.Context(), 1)
	if err != nil || len(r.Jobs) != 1 || r.Jobs[0].ID != first.ID {
		t.Fatalf("reserved %+v, %v", r, err)
	}
	if js, again, err := other.TakeBack(t.Context(), tb.own(first.ID)); err != nil || len(js) != 1 || len(again) > 0 {
		t.Errorf("took back %+v, again %d, %v", js, again, err)
	}
}

// A call whose answer nobody waits for any more may be carried out late.
func TestAJobThatWasTakenBackMeanwhileIsNotTakenFromItsHandler(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	late := tb.own(id)
	j := tb.takesBack(1, id)[0]
	if js, again, err := tb.TakeBack(t.Context(), late); err != nil || len(js)+len(again) > 0 {
		t.Errorf("took back %+v, again %d, %v", js, again, err)
	}
	if got := tb.token(id); got != j.Token {
		t.Errorf("its token is %s, want %s", got, j.Token)
	}
}

// Mine no longer shows it, so a call that is carried out late would give it a lease that nobody knows of.
func TestAJobWhoseLeaseHasEndedIsLeftToBeRescued(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.handed("t")
	own := tb.own(id)
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - interval '1 ms'`)
	if js, again, err := tb.TakeBack(t.Context(), own); err != nil || len(js)+len(again) > 0 {
		t.Errorf("took back %+v, again %d, %v", js, again, err)
	}
}
