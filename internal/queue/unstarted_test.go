package queue_test

import (
	"testing"
)

// lastChance enqueues a job of one attempt, and wants it to have been handed over.
func (tb table) lastChance() int64 {
	tb.t.Helper()
	id := value[int64](tb, "SELECT job_id FROM notifyworker.enqueue_job('t', max_attempts => 1)")
	if s := value[string](tb, "SELECT status || coalesce(notifyworker.handed_key(lock_token)::text, '') FROM notifyworker.jobs WHERE id = $1", id); s == "PENDING" || s == "RUNNING" {
		tb.t.Fatalf("job %d was not handed over: %s", id, s)
	}
	return id
}

func (tb table) rescueNow(id int64) (status string) {
	tb.t.Helper()
	tb.exec("UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - interval '1 s' WHERE id = $1", id)
	if _, err := tb.Rescue(tb.t.Context(), 10); err != nil {
		tb.t.Fatal(err)
	}
	return value[string](tb, "SELECT status || ' ' || attempts FROM notifyworker.jobs WHERE id = $1", id)
}

func TestAHandedJobThatNobodyHasStartedLosesNoAttemptToItsLease(t *testing.T) {
	tb := newHandedTable(t)
	if s := tb.rescueNow(tb.lastChance()); s != "PENDING 0" {
		t.Errorf("a job that was never started is %s, want PENDING 0", s)
	}
}

func TestAHandedJobThatWasTakenLosesItsAttemptWithItsLease(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.lastChance()
	if jobs, again, err := tb.Take(t.Context(), []int64{id}); len(jobs) != 1 || len(again) != 0 || err != nil {
		t.Fatal(jobs, again, err)
	}
	if s := tb.rescueNow(id); s != "FAILED 1" {
		t.Errorf("a job that was taken is %s, want FAILED 1", s)
	}
}

func TestAHandedJobWhoseSessionHasEndedLosesItsAttemptWithItsLease(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.lastChance()
	tb.CloseHands()
	if s := tb.rescueNow(id); s != "FAILED 1" {
		t.Errorf("a job that may have been started is %s, want FAILED 1", s)
	}
}

// Somebody else's session has the lock: a former one of this worker, or a hostile one.
func TestALockThatSomebodyKeepsIsAskedForOnlyWhileTheJobIsThisWorkers(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.lastChance()
	conn, err := tb.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	const locks = "SELECT pg_advisory_lock(notifyworker.taken_key($1)), pg_advisory_lock(notifyworker.taken_key($1 + 1000))"
	if _, err := conn.Exec(t.Context(), locks, id); err != nil {
		t.Fatal(err)
	}
	defer conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
	jobs, again, err := tb.Take(t.Context(), []int64{id, id + 1000})
	if len(jobs) != 0 || len(again) != 1 || again[0] != id || err != nil {
		t.Errorf("taken %v, to be asked for again %v (%v), want job %d only", jobs, again, err, id)
	}
	tb.exec("UPDATE notifyworker.jobs SET status = 'FAILED', lock_token = NULL, worker_id = NULL, lease_expires_at = NULL, finished_at = now() WHERE id = $1", id)
	if jobs, again, err := tb.Take(t.Context(), []int64{id}); len(jobs)+len(again) != 0 || err != nil {
		t.Errorf("taken %v, to be asked for again %v (%v), want nothing of a job that has ended", jobs, again, err)
	}
}

func TestTakingNothingTellsWhetherTheSessionIsThere(t *testing.T) {
	tb := newHandedTable(t)
	if jobs, again, err := tb.Take(t.Context(), nil); len(jobs)+len(again) != 0 || err != nil {
		t.Error(jobs, again, err)
	}
	const end = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1853292549 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
	tb.exec(end)
	if _, _, err := tb.Take(t.Context(), nil); err == nil {
		t.Error("a session that has ended answers")
	}
	if _, _, err := tb.Take(t.Context(), nil); err != nil {
		t.Errorf("the next one does not: %v", err)
	}
}
