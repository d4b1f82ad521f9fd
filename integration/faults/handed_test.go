package faults

import (
	"syscall"
	"testing"
	"time"
)

// handedTo waits until the worker sleeps and commits hand it their jobs.
func (r *rig) handedTo(p *process) {
	r.t.Helper()
	r.until(startup, "commits hand it their jobs", "SELECT count(*) = 1 FROM notifyworker.workers WHERE pid = $1::int AND wants_notify AND hands IS NOT NULL", p.pid())
}

func TestAWorkerFrozenWithJobsThatItWasHandedStartsNoneOfThemWhenItThaws(t *testing.T) {
	r := onDatabase(t)
	started := make(chan call, 1000)
	e := serve(t, func(c call) string {
		started <- c
		return ""
	})
	args := []string{"--handler=work=" + e.URL, "--lease=1m"} // within the patience it is not the lease that counts
	frozen := r.worker(args...)
	r.handedTo(frozen)
	hands := ask[string](r, "SELECT hands::text FROM notifyworker.workers WHERE pid = $1::int", frozen.pid())
	frozen.freeze()
	// The only one that can be handed anything: the other does not listen yet.
	handed := r.job("work", "{}")
	if got := ask[string](r, "SELECT status FROM notifyworker.jobs WHERE id = $1", handed); got != "RUNNING" {
		t.Fatalf("the job is %s, want it handed to the frozen worker", got)
	}
	other := r.worker(args...)
	r.handedTo(other)
	// Told again, since the other was not there the first time.
	r.exec(`SELECT pg_notify('notifyworker', format('{"worker":"%s","job":%s}', worker_id, id)) FROM notifyworker.jobs WHERE id = $1`, handed)
	if c := arrival(t, started, 10*time.Second, "the job that the frozen one was handed starts elsewhere"); c.JobID != handed || c.Attempt != 1 {
		t.Errorf("job %d starts as attempt %d, want job %d as the first", c.JobID, c.Attempt, handed)
	}
	if !ask[bool](r, "SELECT hands IS NULL FROM notifyworker.workers WHERE pid = $1::int", frozen.pid()) {
		t.Error("the frozen worker is still handed jobs")
	}
	const rounds = 20
	var slowest time.Duration
	for range rounds { // each time one of them is handed the job
		r.exec("UPDATE notifyworker.workers SET hands = $1::text::jsonb WHERE pid = $2::int", hands, frozen.pid())
		began := time.Now()
		id := r.job("work", "{}")
		if c := arrival(t, started, 10*time.Second, "a job starts"); c.JobID != id || c.Attempt != 1 {
			t.Errorf("job %d starts as attempt %d, want job %d as the first", c.JobID, c.Attempt, id)
		}
		slowest = max(slowest, time.Since(began))
	}
	atMost(t, "the slowest start beside the frozen worker", slowest, inTheWay)
	if n := other.metric("notifyworker_jobs_taken_over_total"); n < 2 {
		t.Errorf("%v jobs were taken over: too few were handed to the frozen worker to tell", n)
	}
	r.until(10*time.Second, "all are completed", "SELECT bool_and(status = 'COMPLETED') FROM notifyworker.jobs")
	r.exec("UPDATE notifyworker.workers SET hands = NULL WHERE pid = $1::int", frozen.pid())
	before := r.rowsAs("jobs", "true")
	frozen.send(syscall.SIGCONT)
	frozen.expected.Store(false)
	r.handedTo(frozen) // it has read of all that it was handed, and has asked for more
	if after := r.rowsAs("jobs", "true"); after != before {
		t.Errorf("the thawed worker has changed a row:\n%s\nwas\n%s", after, before)
	}
	if n := len(e.seen()); n != rounds+1 {
		t.Errorf("%d starts of %d jobs", n, rounds+1)
	}
	last := r.job("work", "{}")
	if c := arrival(t, started, 10*time.Second, "a job after the thaw"); c.JobID != last {
		t.Errorf("job %d starts, want %d", c.JobID, last)
	}
}
