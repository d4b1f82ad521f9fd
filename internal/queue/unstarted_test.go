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
	tb.take(id)
	if s := tb.rescueNow(id); s != "FAILED 1" {
		t.Errorf("a job that was taken is %s, want FAILED 1", s)
	}
}

func TestAHandedJobWhoseSessionHasEndedLosesItsAttemptWithItsLease(t *testing.T) {
	tb := newHandedTable(t)
	id := tb.lastChance()
	tb.endHands()
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
	if job, again, err := tb.Take(t.Context(), id); job != nil || !again || err != nil {
		t.Errorf("taken %v, to be asked for again: %v (%v), want the latter", job, again, err)
	}
	takesNothing(t, tb.Store, id+1000)
	if jobs, again, err := tb.TakeBack(t.Context(), tb.own(id, id+1000)); len(jobs) != 0 || len(again) != 1 || again[0] != id || err != nil {
		t.Errorf("taken back %v, to be asked for again %v (%v), want job %d only", jobs, again, err, id)
	}
	tb.exec("UPDATE notifyworker.jobs SET status = 'FAILED', lock_token = NULL, worker_id = NULL, lease_expires_at = NULL, finished_at = now() WHERE id = $1", id)
	takesNothing(t, tb.Store, id)
	tb.takesBack(0, id)
}
