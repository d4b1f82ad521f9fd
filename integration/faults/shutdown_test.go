package faults

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// beyond is what a shutdown may take besides the drain time: for handlers to obey, the last conclusions, and the pool.
const beyond = 5 * time.Second

// slow is an endpoint whose calls end when the test says so, or their caller goes.
func slow(t testing.TB) (e *endpoint, started chan call, finish chan struct{}) {
	started, finish = make(chan call, 100), make(chan struct{})
	return serve(t, func(c call) string {
		started <- c
		select {
		case <-finish:
		case <-c.Gone:
		}
		return `{"done": true}`
	}), started, finish
}

// B33: what is reserved and can't be finished goes back at once, without costing an attempt.
func TestB33AtTheEndOfTheDrainTimeJobsGoBackAtOnceAndKeepTheirAttempts(t *testing.T) {
	r := onDatabase(t)
	e, started, _ := slow(t)
	p := r.worker("--handler=slow="+e.URL, "--drain-timeout=500ms", "--slots=4")
	r.exec("SELECT notifyworker.enqueue_job('slow') FROM generate_series(1, 20)")
	for range 4 {
		arrival(t, started, 10*time.Second, "four jobs start")
	}
	told := time.Now()
	p.send(syscall.SIGTERM)
	if code := p.exit(beyond); code != 0 {
		t.Errorf("exit code %d, want 0: all was given back", code)
	}
	atMost(t, "from SIGTERM to the end, with a drain time of 500 ms", time.Since(told), 500*time.Millisecond+beyond)
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE status = 'PENDING' AND attempts = 0 AND run_after <= now()"); n != 20 {
		t.Errorf("%d of 20 jobs are due again with no attempt counted\n%s", n, r.state())
	}
	if len(started) > 0 {
		t.Error("a job was started after SIGTERM")
	}
	if ask[bool](r, "SELECT EXISTS (SELECT FROM notifyworker.workers)") {
		t.Error("the worker is still on the list")
	}
}

// B33, siblings: given back jobs merge where a newer one waits; and a second signal does not wait for anything.
func TestB33AJobGivenBackMergesIntoTheOneThatWaits(t *testing.T) {
	r := onDatabase(t)
	e, started, _ := slow(t)
	p := r.worker("--recompute="+e.URL, "--drain-timeout=300ms", "--refreshes=1", "--refresh-queue=1")
	for i := range 6 { // one runs, one is queued, and the others wait for a place with their slots held
		r.enqueue(fmt.Sprintf("c%d", i), fmt.Sprintf("p%d", i))
	}
	arrival(t, started, 10*time.Second, "the first refresh starts")
	r.until(10*time.Second, "the others are reserved", "SELECT count(*) FILTER (WHERE status = 'RUNNING') = 4 FROM notifyworker.jobs")
	for i := range 6 {
		r.enqueue(fmt.Sprintf("c%d", i), fmt.Sprintf("q%d", i))
	}
	p.send(syscall.SIGTERM)
	p.exit(300*time.Millisecond + beyond)
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE status = 'RUNNING'"); n > 0 {
		t.Errorf("%d jobs are still RUNNING", n)
	}
	back := time.Now()
	r.worker()
	r.until(10*time.Second, "all ids are recomputed", "SELECT count(*) = 12 FROM ledger.recomputed")
	atMost(t, "from the next worker's start to the recomputation of all", time.Since(back), 8*time.Second)
	r.settle(10 * time.Second)
	r.judge(nil)
}

func TestB33ASecondSignalEndsAtOnceAndTheJobIsRescued(t *testing.T) {
	r := onDatabase(t)
	e, started, finish := slow(t)
	p := r.worker("--handler=slow="+e.URL, "--drain-timeout=1m", "--lease=2s")
	id := r.job("slow", "{}")
	arrival(t, started, 10*time.Second, "the job starts")
	mark := p.log.mark()
	p.send(syscall.SIGTERM)
	p.await(mark, 5*time.Second, "that it drains", says("draining"))
	time.Sleep(200 * time.Millisecond) // two within 100 ms are one
	told := time.Now()
	p.send(syscall.SIGTERM)
	if code := p.exit(5 * time.Second); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, want 143", code)
	}
	atMost(t, "from the second SIGTERM to the end", time.Since(told), 3*time.Second)
	close(finish)
	r.worker("--handler=slow="+e.URL, "--lease=2s")
	r.until(10*time.Second, "the job is done elsewhere", "SELECT status = 'COMPLETED' AND attempts = 2 FROM notifyworker.jobs WHERE id = $1", id)
}

// B34: the result of a handler that ends just after SIGTERM.
func TestB34AResultThatComesJustAfterTheSignalIsStored(t *testing.T) {
	r := onDatabase(t)
	e, started, finish := slow(t)
	p := r.worker("--handler=slow=" + e.URL)
	id := r.job("slow", "{}")
	arrival(t, started, 10*time.Second, "the job starts")
	p.send(syscall.SIGTERM)
	p.await(0, 5*time.Second, "that it drains", says("draining"))
	close(finish)
	told := time.Now()
	if code := p.exit(beyond); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	atMost(t, "from the last result to the end", time.Since(told), 3*time.Second)
	if !ask[bool](r, "SELECT status = 'COMPLETED' AND attempts = 1 AND result ->> 'done' = 'true' FROM notifyworker.jobs WHERE id = $1", id) {
		t.Errorf("the result is not stored:\n%s", r.state())
	}
}

// A refresh under way at SIGTERM is handed to another worker, which need not wait for the lease.
func TestARefreshUnderWayIsHandedOverAtOnce(t *testing.T) {
	r := onDatabase(t)
	started := make(chan call, 10)
	var calls atomic.Int64
	e := serve(t, func(c call) string {
		started <- c
		if calls.Add(1) == 1 {
			<-c.Gone
		}
		return ""
	})
	args := []string{"--recompute=" + e.URL, "--drain-timeout=300ms", "--chunk=1", "--lease=1m"}
	p := r.worker(args...)
	r.enqueue("c", "p1", "p2", "p3")
	arrival(t, started, 10*time.Second, "the first chunk starts")
	r.worker(args...)
	p.send(syscall.SIGTERM)
	if code := p.exit(300*time.Millisecond + beyond); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	gone := time.Now()
	r.until(10*time.Second, "the refresh is done", "SELECT bool_and(status = 'DONE' AND done_count = 3) FROM notifyworker.refreshes")
	atMost(t, "from the end of one worker to the end of its refresh on the other", time.Since(gone), 3*time.Second)
}

// B35: the database hangs, and the worker is told to stop.
func TestB35WithAFrozenServerTheWorkerStopsWithinItsTime(t *testing.T) {
	for _, state := range []string{"idle", "with a job", "with a refresh"} {
		t.Run(state, func(t *testing.T) {
			r := onServer(t, embedded.Config{})
			e, started, finish := slow(t)
			p := r.worker("--handler=slow="+e.URL, "--recompute="+e.URL, "--drain-timeout=1s")
			switch state {
			case "with a job":
				r.job("slow", "{}")
			case "with a refresh":
				r.enqueue("c", "p")
			}
			if state != "idle" {
				arrival(t, started, 10*time.Second, "the work starts")
			}
			if err := r.server.Pause(); err != nil {
				t.Fatal(err)
			}
			close(finish)
			told := time.Now()
			p.send(syscall.SIGTERM)
			code := p.exit(time.Minute)
			atMost(t, "from SIGTERM to the end, with a drain time of 1 s", time.Since(told), time.Second+beyond)
			if err := r.server.Resume(); err != nil {
				t.Fatal(err)
			}
			if state != "idle" && (code != 1 || p.log.count(0, func(e entry) bool { return strings.Contains(e.message(), "lease") }) == 0) {
				t.Errorf("exit code %d, want 1, and that something is left to its lease", code)
			}
		})
	}
}

// In every state, the database being away in every way: the worker ends in time when it is told to.
func TestSIGTERMEndsTheWorkerInEveryState(t *testing.T) {
	states := map[string]func(r *rig) *process{
		"before the database answers at all": func(r *rig) *process {
			halt(r)
			p := r.launch(r.url)
			p.await(0, startup, "that the database is not ready", says("the database is not ready"))
			return p
		},
		"while the first connection hangs": func(r *rig) *process {
			proxy := r.proxy()
			proxy.Silence(true)
			p := r.launch(r.via(proxy.Addr()))
			p.await(0, startup, "that it starts", says("starting"))
			return p
		},
		"while the server is away": func(r *rig) *process {
			p := r.worker()
			halt(r)
			p.await(0, 20*time.Second, "that the connection is lost", says("listening connection lost"))
			return p
		},
		"while the network is silent": func(r *rig) *process {
			proxy := r.proxy()
			p := r.launch(r.via(proxy.Addr())).listening()
			proxy.Silence(true)
			p.await(0, 20*time.Second, "that it has noticed", func(e entry) bool { return e.text("level") == "warn" })
			return p
		},
		"while the tables are locked": func(r *rig) *process {
			p := r.worker()
			tx, err := r.db.Begin(context.Background())
			if err != nil {
				r.t.Fatal(err)
			}
			r.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			if _, err := tx.Exec(context.Background(), "LOCK TABLE notifyworker.jobs, notifyworker.workers IN ACCESS EXCLUSIVE MODE"); err != nil {
				r.t.Fatal(err)
			}
			p.await(0, 20*time.Second, "that it has noticed", func(e entry) bool { return e.text("level") == "warn" })
			return p
		},
		"while it sleeps": func(r *rig) *process { return r.worker() },
		"while it has much to do": func(r *rig) *process {
			p := r.worker()
			r.exec("SELECT ledger.enqueue('catalog ' || n % 50, ARRAY['p' || n]) FROM generate_series(1, 3000) n")
			return p
		},
	}
	for name, reach := range states {
		t.Run(name, func(t *testing.T) {
			r := onServer(t, embedded.Config{})
			p := reach(r)
			told := time.Now()
			p.send(syscall.SIGTERM)
			code := p.exit(time.Minute)
			atMost(t, "from SIGTERM to the end", time.Since(told), beyond)
			if code != 0 {
				t.Errorf("exit code %d, want 0: nothing was left behind", code)
			}
		})
	}
}

func halt(r *rig) {
	r.t.Helper()
	if err := r.server.Halt(embedded.Immediate); err != nil {
		r.t.Fatal(err)
	}
}
