package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// inTheWay is the promise for one worker that listens and does nothing: so much longer a job waits at most.
const inTheWay = 100 * time.Millisecond

// crew starts more workers than there are seats: the first four have one.
func (r *rig) crew(n int, args ...string) []*process {
	r.t.Helper()
	var all []*process
	for i := range n {
		if i < 4 {
			all = append(all, r.worker(args...))
			continue
		}
		p := r.launch(r.url, args...)
		p.await(0, startup, "that it has started", says("worker started"))
		all = append(all, p)
	}
	r.seated(4, n-4)
	r.until(startup, "the seated ones sleep", "SELECT count(*) FILTER (WHERE wants_notify) = 4 FROM notifyworker.workers")
	return all
}

// seated waits until so many have a seat and so many wait for one.
func (r *rig) seated(has, wait int) {
	r.t.Helper()
	r.until(20*time.Second, fmt.Sprintf("%d have a seat and %d wait for one", has, wait), `SELECT count(*) FILTER (WHERE granted) = $1 AND count(*) FILTER (WHERE NOT granted) >= least(1, $2)
		FROM pg_locks WHERE locktype = 'advisory' AND classid = 1853292549 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, has, wait)
}

// slowestOf runs jobs one after the other and tells how long the slowest waited, by the server's clock.
func (r *rig) slowestOf(n int, within time.Duration) time.Duration {
	r.t.Helper()
	var slowest float64
	for range n {
		id := r.job("work", `{"sleep": 0}`)
		r.until(within, "the job starts", "SELECT started_at IS NOT NULL FROM notifyworker.jobs WHERE id = $1", id)
		slowest = max(slowest, ask[float64](r, "SELECT extract(epoch FROM started_at - created_at)::float8 FROM notifyworker.jobs WHERE id = $1", id))
	}
	return time.Duration(slowest * float64(time.Second))
}

func TestAWorkerThatListensAndIsFrozenDeadOrBusyIsInNobodysWay(t *testing.T) {
	r := onDatabase(t)
	workers := r.crew(7, "--handler=work=sql:ledger.work", "--slots=1")
	const jobs = 30
	atMost(t, "the slowest start with four idle listeners", r.slowestOf(jobs, 10*time.Second), inTheWay)
	workers[0].freeze()
	atMost(t, "the slowest start beside a frozen listener", r.slowestOf(jobs, 10*time.Second), inTheWay)
	workers[0].send(syscall.SIGCONT)
	workers[0].expected.Store(false)
	workers[1].kill()
	atMost(t, "the slowest start beside a dead listener", r.slowestOf(jobs, 10*time.Second), inTheWay)
	r.seated(4, 2)
	for i := range 5 { // one after the other becomes busy, and stays so
		id := r.job("work", `{"sleep": 4}`)
		r.until(10*time.Second, "the long job starts", "SELECT started_at IS NOT NULL FROM notifyworker.jobs WHERE id = $1", id)
		late := ask[float64](r, "SELECT extract(epoch FROM started_at - created_at)::float8 FROM notifyworker.jobs WHERE id = $1", id)
		atMost(t, fmt.Sprintf("a start with %d busy workers", i), time.Duration(late*float64(time.Second)), inTheWay)
	}
	atMost(t, "the slowest start on the one that is idle", r.slowestOf(5, 10*time.Second), inTheWay)
	r.settle(20 * time.Second)
	r.judge(nil)
}

// All who listen frozen at once, as when a machine pauses: who waits for their seats looks for himself.
func TestWhenAllWhoListenAreFrozenTheReservesGoOn(t *testing.T) {
	r := onDatabase(t)
	workers := r.crew(6, "--handler=work=sql:ledger.work")
	for _, p := range workers[:4] {
		p.freeze()
	}
	id := r.job("work", `{"sleep": 0}`)
	took := r.until(30*time.Second, "the job is done", "SELECT status = 'COMPLETED' FROM notifyworker.jobs WHERE id = $1", id)
	atMost(t, "a job that nobody heard of", took, 12*time.Second)
	for _, p := range workers[:4] {
		p.send(syscall.SIGCONT)
		p.expected.Store(false)
	}
	atMost(t, "the slowest start after it", r.slowestOf(10, 10*time.Second), time.Second)
}

// A connection that fell silent holds its seat on the server until its worker has it ended.
func TestASeatLeftInABlackHoleIsFreedByItsWorker(t *testing.T) {
	r := onServer(t, embedded.Config{})
	proxy := r.proxy()
	p := r.launch(r.url, "--listen-url="+r.via(proxy.Addr())).listening()
	pid := p.lastPID()
	mark := p.log.mark()
	proxy.Mute() // this connection is gone for good, new ones work
	p.await(mark, 20*time.Second, "that it listens again", says("listening for notifications"))
	r.until(10*time.Second, "its old session is gone", "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1::int)", pid)
	r.seated(1, 0)
}
