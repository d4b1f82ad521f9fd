package faults

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/faultproxy"
)

// inTheWay is the promise for one worker that listens and does nothing: so much longer a job waits at most.
const inTheWay = 100 * time.Millisecond

// crew starts so many workers that listening takes a seat, and tells which have one.
func (r *rig) crew(n int, args ...string) (all, sitting []*process) {
	r.t.Helper()
	for range n {
		all = append(all, r.launch(r.url, args...))
	}
	return all, r.sitting(all)
}

// sitting waits until four of all have a seat and sleep, and the others wait for one.
func (r *rig) sitting(all []*process) (sitting []*process) {
	r.t.Helper()
	for _, p := range all {
		p.await(0, startup, "that it has started", says("worker started"))
	}
	r.seated(4, len(all)-4)
	r.until(startup, "their sessions can be told from others", "SELECT count(*) = $1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'notifyworker seat'", len(all))
	r.until(startup, "those with a seat sleep", "SELECT count(*) FILTER (WHERE wants_notify) = 4 FROM notifyworker.workers")
	for _, p := range all {
		if ask[bool](r, "SELECT wants_notify FROM notifyworker.workers WHERE pid = $1::int", p.cmd.Process.Pid) {
			sitting = append(sitting, p)
		}
	}
	return sitting
}

// seated waits until so many have a seat and so many wait for one.
func (r *rig) seated(has, wait int) {
	r.t.Helper()
	r.until(time.Minute, fmt.Sprintf("%d have a seat and %d wait for one", has, wait),
		"SELECT count(*) FILTER (WHERE granted) = $1 AND count(*) FILTER (WHERE NOT granted) = $2 FROM notifyworker.seat_locks()", has, wait)
}

// slowestOf runs jobs one after the other and tells how long the slowest waited for its handler, by the server's clock.
func (r *rig) slowestOf(n int, within time.Duration) time.Duration {
	r.t.Helper()
	var slowest float64
	for range n {
		id := r.job("work", `{"sleep": 0}`)
		r.until(within, "the job's handler is called", "SELECT EXISTS (SELECT FROM ledger.worked WHERE job_id = $1)", id)
		slowest = max(slowest, ask[float64](r, "SELECT extract(epoch FROM min(w.at) - min(j.created_at))::float8 FROM notifyworker.jobs j JOIN ledger.worked w ON w.job_id = j.id WHERE j.id = $1", id))
	}
	return time.Duration(slowest * float64(time.Second))
}

func TestAWorkerThatListensAndIsFrozenDeadOrBusyIsInNobodysWay(t *testing.T) {
	r := onDatabase(t)
	const n = 11
	all, sitting := r.crew(n, "--handler=work=sql:ledger.work", "--slots=1")
	const jobs = 30
	atMost(t, "the slowest start with four idle listeners", r.slowestOf(jobs, 10*time.Second), inTheWay)
	sitting[0].freeze()
	atMost(t, "the slowest start beside a frozen listener", r.slowestOf(jobs, 10*time.Second), inTheWay)
	// What a commit hands to it before the server has seen it die, it may have begun: that waits for its lease.
	const handed = "FROM notifyworker.workers WHERE hands IS NOT NULL AND pid <> $1::int"
	r.until(startup, "another one is handed jobs", "SELECT count(*) > 0 "+handed, sitting[0].cmd.Process.Pid)
	dies := ask[int](r, "SELECT pid "+handed+" LIMIT 1", sitting[0].cmd.Process.Pid)
	all[slices.IndexFunc(all, func(p *process) bool { return p.cmd.Process.Pid == dies })].kill()
	r.until(startup, "its session has ended", "SELECT NOT notifyworker.has_hands(coalesce((hands -> 'key')::integer, 0)) FROM notifyworker.workers WHERE pid = $1::int", dies)
	atMost(t, "the slowest start beside a frozen and a dead listener", r.slowestOf(jobs, 10*time.Second), inTheWay)
	for i := range n - 3 { // one after the other becomes busy, and stays so, until one is left beside the frozen one
		id := r.job("work", `{"sleep": 20}`)
		const sleeps = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep' AND query LIKE '%ledger%'"
		r.until(10*time.Second, "the long job's handler is called", "SELECT count(*) > $1 "+sleeps, i)
		late := ask[float64](r, "SELECT extract(epoch FROM (SELECT max(query_start) "+sleeps+") - created_at)::float8 FROM notifyworker.jobs WHERE id = $1", id)
		atMost(t, fmt.Sprintf("a start with %d busy workers", i), time.Duration(late*float64(time.Second)), inTheWay)
	}
	atMost(t, "the slowest start on the one that is idle", r.slowestOf(5, 10*time.Second), inTheWay)
	sitting[0].send(syscall.SIGCONT)
	sitting[0].expected.Store(false)
	r.settle(time.Minute)
	r.judge(nil)
}

// One who listens falls into a black hole: the others cover it at once, and the server gives its seat to another in time.
func TestAWorkerInABlackHoleOnItsSeatIsInNobodysWay(t *testing.T) {
	r := onServer(t, embedded.Config{})
	const n = 10
	var all []*process
	proxies := map[*process]*faultproxy.Proxy{}
	for range n {
		proxy := r.proxy()
		p := r.launch(r.via(proxy.Addr()), "--handler=work=sql:ledger.work")
		all, proxies[p] = append(all, p), proxy
	}
	lost := r.sitting(all)[0]
	proxies[lost].Silence(true)
	atMost(t, "the slowest start beside a listener in a black hole", r.slowestOf(30, 10*time.Second), inTheWay)
	r.seated(4, n-5)
	atMost(t, "the slowest start after its seat was given to another", r.slowestOf(10, 10*time.Second), inTheWay)
	proxies[lost].Silence(false)
	proxies[lost].Reset()
	r.seated(4, n-4)
}

// All who listen frozen at once, as when a machine pauses: those in reserve notice that nobody wants to be told.
func TestWhenAllWhoListenAreFrozenTheReservesGoOn(t *testing.T) {
	r := onDatabase(t)
	_, sitting := r.crew(10, "--handler=work=sql:ledger.work")
	for _, p := range sitting {
		p.freeze()
	}
	id := r.job("work", `{"sleep": 0}`)
	took := r.until(time.Minute, "the job is done", "SELECT status = 'COMPLETED' FROM notifyworker.jobs WHERE id = $1", id)
	atMost(t, "a job that nobody heard of", took, 12*time.Second)
	r.until(time.Minute, "the server has given their seats to others", "SELECT count(*) >= 4 FROM notifyworker.workers WHERE wants_notify AND last_beat > clock_timestamp() - interval '6 s'")
	atMost(t, "the slowest start from then on", r.slowestOf(10, 10*time.Second), inTheWay)
	for _, p := range sitting {
		p.send(syscall.SIGCONT)
		p.expected.Store(false)
	}
	atMost(t, "the slowest start after it", r.slowestOf(10, 10*time.Second), time.Second)
}
