package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"

	"github.com/jackc/pgx/v5"
)

// lastPID is the backend of the listening connection, as the log told it last.
func (p *process) lastPID() int64 {
	p.t.Helper()
	var pid int64
	p.log.count(0, func(e entry) bool {
		if says("listening for notifications")(e) {
			pid = e.number("backend_pid")
		}
		return false
	})
	return pid
}

// sessions counts those of workers in this database.
func (r *rig) sessions() int {
	r.t.Helper()
	return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'notifyworker%'")
}

// B19: a reconnect loop that leaks. The listener is terminated again and again, with a job at a random moment around it.
func TestB19TheListenerTerminatedAgainAndAgainMissesNothingAndLeaksNothing(t *testing.T) {
	r := onDatabase(t)
	p := r.worker()
	r.pickUp(10*time.Second, "c", "warm")
	files, threads, sessions := p.files(), p.threads(), r.sessions()
	var slowest time.Duration
	n := times(40, 500)
	for i := range n {
		mark := p.log.mark()
		id := fmt.Sprintf("id-%d", i)
		took := make(chan time.Duration, 1)
		go func() {
			time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond) // the fault itself: a random moment around it
			if _, err := r.db.Exec(context.Background(), "SELECT ledger.enqueue('c', $1)", []string{id}); err != nil {
				t.Error(err)
			}
			began := time.Now()
			for time.Since(began) < patient(10*time.Second) {
				if ok, err := try[bool](r, "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = $1)", id); err == nil && ok {
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			took <- time.Since(began)
		}()
		time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
		if !ask[bool](r, "SELECT pg_terminate_backend($1::int)", p.lastPID()) {
			t.Fatalf("the listener's backend %d was not there", p.lastPID())
		}
		slowest = max(slowest, <-took)
		p.await(mark, 10*time.Second, "that it listens again", says("listening for notifications"))
	}
	atMost(t, fmt.Sprintf("the slowest of %d jobs around the loss of the listener", n), slowest, 1500*time.Millisecond)
	// A leak is one more at each loss; the pool may have grown meanwhile, and the system takes a moment to clear up.
	const grown = 6 + 8
	if got := p.files(); got > files+grown {
		t.Errorf("file descriptors: %d at the start, %d after %d losses", files, got, n)
	}
	if got := p.threads(); got > threads+grown {
		t.Errorf("threads: %d at the start, %d after %d losses", threads, got, n)
	}
	if got := r.sessions(); got > sessions+grown {
		t.Errorf("sessions: %d at the start, %d after %d losses", sessions, got, n)
	}
	r.settle(10 * time.Second)
	r.judge(nil)
}

// B19, the other half: enqueues whose caller gives up in the midst leave no session, lock or half-written job behind.
func TestB19EnqueuesThatAreCancelledLeaveNothingBehind(t *testing.T) {
	r := onDatabase(t)
	r.worker()
	before := ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database()")
	cancelled := 0
	for i := range times(100, 500) {
		ctx, done := context.WithTimeout(context.Background(), time.Duration(rand.IntN(3000))*time.Microsecond)
		err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT ledger.enqueue($1, $2)", fmt.Sprintf("c%d", i%5), []string{fmt.Sprintf("id-%d", i)})
			return err
		})
		if errors.Is(err, context.DeadlineExceeded) {
			cancelled++
		}
		done()
	}
	t.Logf("%d enqueues were cancelled", cancelled)
	// A COMMIT may lie in the socket of a session that is given up.
	r.until(10*time.Second, "no client's session is left in a transaction", "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'test' AND state <> 'idle' AND pid <> pg_backend_pid()")
	r.settle(20 * time.Second)
	r.until(10*time.Second, "no session is left in a transaction", "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'")
	r.until(10*time.Second, "no session is left over", "SELECT count(*) <= $1 + 12 FROM pg_stat_activity WHERE datname = current_database()", before)
	r.judge(nil)
}

// B20: a pool that recycles its connections must not recycle the listener.
func TestB20ThePoolsRecyclingLeavesTheListenerAlone(t *testing.T) {
	r := onDatabase(t)
	r.url = r.with("pool_max_conn_lifetime", "500ms")
	r.url = r.with("pool_health_check_period", "200ms")
	p := r.worker()
	mark, pid := p.log.mark(), p.lastPID()
	load := r.clients(3, 6, 20*time.Millisecond)
	time.Sleep(long(6 * time.Second))
	load.stop()
	r.settle(20 * time.Second)
	r.judge(load)
	if ask[bool](r, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1::int)", pid) || p.log.count(mark, says("listen")) > 0 {
		blame(t, "the listening connection was replaced")
	}
	if n := p.log.count(mark, says("the database does not answer")); n > 0 {
		blame(t, "the worker had trouble with its pool %d times", n)
	}
}

// B21: equal notifications of one transaction are one; many jobs of one commit wake all that is needed.
func TestB21ManyJobsOfOneTransactionAllStartAtOnce(t *testing.T) {
	r := onDatabase(t)
	for range 4 {
		r.worker("--handler=work=sql:ledger.work")
	}
	r.until(10*time.Second, "all sleep", "SELECT count(*) FILTER (WHERE wants_notify) = 4 FROM notifyworker.workers")
	r.exec("SELECT notifyworker.enqueue_job('work', jsonb_build_object('sleep', 0.02, 'n', n)) FROM generate_series(1, 200) n")
	took := r.until(20*time.Second, "all 200 are done", "SELECT count(*) = 200 FROM notifyworker.jobs WHERE status = 'COMPLETED'")
	atMost(t, "200 jobs of 20 ms on 4 workers", took, 5*time.Second)
	late := ask[float64](r, "SELECT max(extract(epoch FROM started_at - created_at))::float8 FROM notifyworker.jobs")
	atMost(t, "the last start", time.Duration(late*float64(time.Second)), 4*time.Second)
	// The same with catalogs, which are what the product is about.
	r.exec("SELECT ledger.enqueue('catalog ' || n, ARRAY['p' || n]) FROM generate_series(1, 200) n")
	atMost(t, "200 catalogs of one transaction", r.until(20*time.Second, "all are recomputed", "SELECT count(*) = 200 FROM ledger.recomputed"), 5*time.Second)
	r.settle(10 * time.Second)
	r.judge(nil)
}

// B22: nobody is listening when the job comes.
func TestB22JobsEnqueuedBeforeAnyWorkerStartAtOnce(t *testing.T) {
	r := onDatabase(t)
	for i := range 10 {
		r.enqueue(fmt.Sprintf("c%d", i), fmt.Sprintf("p%d", i))
	}
	p := r.launch(r.url)
	p.await(0, startup, "that it has started", says("worker started"))
	took := r.until(20*time.Second, "all are recomputed", "SELECT count(*) = 10 FROM ledger.recomputed")
	atMost(t, "from the worker's start to all recomputations", took, 3*time.Second)
}

// B23: a job becomes due while the worker sleeps.
func TestB23ADelayedJobStartsWhenItIsDue(t *testing.T) {
	r := onDatabase(t)
	e := serve(t, func(c call) string { return "" })
	r.worker("--handler=later=" + e.URL)
	r.until(10*time.Second, "it sleeps", "SELECT bool_or(wants_notify) FROM notifyworker.workers")
	r.exec("SELECT notifyworker.enqueue_job('later', delay => interval '2 s')")
	// A raw INSERT, and a job whose delay somebody shortens while the worker waits for the longer one.
	r.exec("INSERT INTO notifyworker.jobs (type, run_after) VALUES ('later', now() + interval '1 s')")
	r.exec("INSERT INTO notifyworker.jobs (type, run_after) VALUES ('later', now() + interval '1 hour')")
	r.exec("UPDATE notifyworker.jobs SET run_after = now() + interval '500 ms' WHERE run_after > now() + interval '10 s'")
	r.until(10*time.Second, "all are done", "SELECT count(*) = 3 FROM notifyworker.jobs WHERE status = 'COMPLETED'")
	late := ask[float64](r, "SELECT max(extract(epoch FROM started_at - run_after))::float8 FROM notifyworker.jobs")
	atMost(t, "the latest start after its due time", time.Duration(late*float64(time.Second)), 500*time.Millisecond)
}

// B25: a worker that is frozen while it listens does not read: the queue of notifications fills, and its snapshot pins vacuum.
func TestB25AFrozenListenerDoesNotStopTheNotifyingServer(t *testing.T) {
	r := onServer(t, embedded.Config{})
	p := r.worker()
	q := r.worker()
	// A worker that stops amid a transaction keeps it open: what is tested is one that listens, in peace.
	r.until(10*time.Second, "both sleep", "SELECT count(*) FILTER (WHERE wants_notify) = 2 FROM notifyworker.workers")
	const open = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'notifyworker%' AND state <> 'idle'"
	for p.freeze(); ask[int](r, open) > 0; p.freeze() {
		p.send(syscall.SIGCONT)
	}
	// Its row says that it wants to be told for another minute, so all commits notify. Besides, somebody floods the channel.
	flood := times(30, 600)
	for i := range flood {
		r.exec("SELECT pg_notify('notifyworker', repeat('x', 7000) || n || $1) FROM generate_series(1, 300) n", fmt.Sprint(i))
	}
	usage := ask[float64](r, "SELECT pg_notification_queue_usage()")
	t.Logf("%d notifications of 7 kB while a listener is frozen: the queue is full to %.2f %%", flood*300, 100*usage)
	r.until(5*time.Second, "no session of a worker stays idle in a transaction", "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'notifyworker%' AND state LIKE 'idle in transaction%')")
	for i := range 3 {
		atMost(t, "a recomputation meanwhile", r.pickUp(10*time.Second, "c", fmt.Sprintf("during-%d", i)), 2*time.Second)
	}
	p.send(syscall.SIGCONT)
	p.expected.Store(false)
	r.until(60*time.Second, "the queue is drained", "SELECT pg_notification_queue_usage() < 0.0001")
	q.kill() // the thawed one works on alone
	// A job that is handed to a dead process before the server knows waits for its lease.
	r.until(10*time.Second, "the server knows that it is gone", "SELECT count(*) <= 1 FROM pg_stat_activity WHERE application_name = 'notifyworker listen'")
	took := r.pickUp(20*time.Second, "c", "after")
	atMost(t, "a recomputation by the thawed worker", took, 3*time.Second)
	r.settle(10 * time.Second)
	r.judge(nil)
}

// B28: a malformed notification breaks the listener.
func TestB28MalformedNotificationsBreakNothing(t *testing.T) {
	r := onDatabase(t)
	p := r.worker()
	pid := p.lastPID()
	long := make([]byte, 7999)
	for i := range long {
		long[i] = '['
	}
	for _, payload := range []string{
		"", "{", string(long), `{"catalog":null}`, `{"due":"yesterday"}`, `{"due":1e400}`, `{"due":-1}`, `{"due":9223372036854775807}`,
		"[]", "null", "7", `"x"`, "\u00e9\u4e16\U0001f980", `{"type":{},"tenant":[],"catalog":7}`, `{"catalog":"` + string(long[:7000]) + `"}`,
	} {
		r.exec("SELECT pg_notify('notifyworker', $1)", payload)
	}
	for i := range 3 {
		atMost(t, "a recomputation after them", r.pickUp(10*time.Second, "c", fmt.Sprintf("p%d", i)), time.Second)
	}
	if got := p.lastPID(); got != pid {
		blame(t, "the listening connection was replaced: backend %d, then %d", pid, got)
	}
	if n := p.log.count(0, says("notification can't be read")); n == 0 {
		t.Error("no malformed notification was counted")
	}
}

// B29: a listener that is lost, cut off and flooded from three sides at once goes on, and ends when it is told to.
func TestB29AListenerUnderFireGoesOnAndEndsWhenTold(t *testing.T) {
	r := onServer(t, embedded.Config{})
	proxy := r.proxy()
	p := r.launch(r.url, "--listen-url="+r.via(proxy.Addr())).listening()
	ctx, stop := context.WithTimeout(t.Context(), long(5*time.Second))
	defer stop()
	var wg sync.WaitGroup
	fire := func(every time.Duration, f func()) {
		wg.Go(func() {
			for ctx.Err() == nil {
				f()
				time.Sleep(every/2 + rand.N(every)) // the fault itself: a random moment
			}
		})
	}
	run := func(sql string) func() {
		return func() { _, _ = r.db.Exec(ctx, sql) } // it may be cut off by the end
	}
	fire(60*time.Millisecond, proxy.Reset)
	fire(50*time.Millisecond, run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'notifyworker listen'`))
	fire(2*time.Millisecond, run("SELECT pg_notify('notifyworker', repeat('x', 1000) || n) FROM generate_series(1, 50) n"))
	wg.Wait()
	atMost(t, "a recomputation afterwards", r.pickUp(10*time.Second, "c", "p"), 5*time.Second)
	p.isReady(15 * time.Second)
	told := time.Now()
	p.send(syscall.SIGTERM)
	if code := p.exit(beyond); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	atMost(t, "from SIGTERM to the end", time.Since(told), 3*time.Second)
}
