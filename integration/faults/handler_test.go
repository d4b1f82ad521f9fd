package faults

import (
	"fmt"
	"testing"
	"time"
)

// B30: jobs left RUNNING. Rows that need no rescue don't hide those that do.
func TestB30RescueFindsTheFiveAmongTenThousand(t *testing.T) {
	r := onDatabase(t)
	r.exec(`INSERT INTO notifyworker.jobs (type, status, lock_token, lease_expires_at, worker_id, started_at, attempts)
		SELECT 'work', 'RUNNING', gen_random_uuid(), now() + interval '1 hour', gen_random_uuid(), now(), 1 FROM generate_series(1, 10000)`)
	r.exec(`INSERT INTO notifyworker.jobs (type, status, lock_token, lease_expires_at, worker_id, started_at, attempts)
		SELECT 'work', 'RUNNING', gen_random_uuid(), now() - interval '1 second', gen_random_uuid(), now() - interval '10 s', 1 FROM generate_series(1, 5)`)
	r.worker("--handler=work=sql:ledger.work")
	took := r.until(30*time.Second, "the five are done", "SELECT count(*) = 5 FROM notifyworker.jobs WHERE status = 'COMPLETED'")
	atMost(t, "from the worker's start to the end of the five", took, 5*time.Second)
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE status = 'RUNNING'"); n != 10000 {
		t.Errorf("%d of 10000 jobs whose lease holds are still RUNNING", n)
	}
}

// B31: the heartbeat of a worker that is starved of everything still comes in time.
func TestB31ALongJobOnAStarvedWorkerRunsOnce(t *testing.T) {
	r := onDatabase(t)
	// Eight slots are busy in the database itself, so the pool's connections are taken by SQL functions; the leases are short.
	args := []string{"--handler=work=sql:ledger.work", "--lease=5s", "--slots=8"}
	r.worker(args...)
	r.worker(args...) // would take over whatever is not extended in time
	load := r.clients(3, 6, 10*time.Millisecond)
	r.exec(`SELECT notifyworker.enqueue_job('work', '{"sleep": 15}') FROM generate_series(1, 12)`)
	r.until(60*time.Second, "all are done", "SELECT count(*) = 12 FROM notifyworker.jobs WHERE type = 'work' AND status = 'COMPLETED'")
	load.stop()
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE type = 'work' AND attempts > 1"); n > 0 {
		blame(t, "%d of 12 jobs of three leases' length ran more than once", n)
	}
	r.settle(20 * time.Second)
	r.judge(load)
}

// A client enqueues and then idles: nobody waits for it.
func TestAClientThatEnqueuedAndIdlesHoldsUpNobody(t *testing.T) {
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			r := onDatabase(t)
			r.worker()
			idle, err := r.db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer idle.Release()
			for _, sql := range []string{
				"BEGIN ISOLATION LEVEL " + level,
				"SELECT ledger.enqueue('catalog 0', '{idle-1}')", "SELECT ledger.enqueue('catalog 1', '{idle-2}')",
				// The worst of clients: its deferred triggers have run, so it has decided already whether to notify.
				"SET CONSTRAINTS ALL IMMEDIATE",
			} {
				if _, err := idle.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			load := r.clients(3, 2, 10*time.Millisecond) // the same two catalogs
			time.Sleep(long(4 * time.Second))            // the fault itself: the client idles
			load.stop()
			r.until(10*time.Second, "all but the idling client's ids are recomputed", "SELECT NOT EXISTS (SELECT FROM ledger.enqueued e WHERE NOT EXISTS (SELECT FROM ledger.recomputed m WHERE m.product = e.product))")
			slowest := ask[float64](r, "SELECT max(extract(epoch FROM m.at - e.at))::float8 FROM ledger.enqueued e JOIN ledger.recomputed m USING (product)")
			atMost(t, "the slowest id of the others", time.Duration(slowest*float64(time.Second)), 3*time.Second)
			load.mu.Lock()
			atMost(t, "the slowest enqueue of the others", load.slowest, time.Second)
			load.mu.Unlock()
			if _, err := idle.Exec(t.Context(), "COMMIT"); err != nil {
				t.Fatalf("commit of the idling client: %v", err)
			}
			took := r.until(10*time.Second, "its ids are recomputed", "SELECT count(*) = 2 FROM ledger.recomputed WHERE product LIKE 'idle-%'")
			atMost(t, "from its commit to the recomputation of its ids", took, 2500*time.Millisecond)
			r.settle(10 * time.Second)
			r.judge(load)
		})
	}
}

// B37: what handlers do wrong ends one attempt and frees the slot. (Panics are a matter of Go handlers: package worker.)
func TestB37HandlersThatMisbehaveEndOneAttempt(t *testing.T) {
	r := onDatabase(t)
	big := make([]byte, 10<<20)
	for i := range big {
		big[i] = 'x'
	}
	bad := map[string]string{
		"huge": `{"text": "` + string(big) + `"}`, "nul": `{"a": "\u0000"}`, "no object": `[1]`, "no json": `{`, "bytes": "{\"a\": \"\xff\xfe\"}", "surrogate": `{"a": "\ud800"}`,
	}
	e := serve(t, func(c call) string {
		for kind, text := range bad {
			if string(c.Config) == fmt.Sprintf(`{"kind":%q}`, kind) || string(c.Config) == fmt.Sprintf(`{"kind": %q}`, kind) {
				return text
			}
		}
		return ""
	})
	p := r.worker("--handler=bad="+e.URL, "--slots=2")
	for kind := range bad {
		r.exec("SELECT notifyworker.enqueue_job('bad', jsonb_build_object('kind', $1::text), max_attempts => 1)", kind)
	}
	// What JSON allows and the table does not hold is replaced; the rest is a failed attempt with its reason.
	r.until(30*time.Second, "each has ended", `SELECT bool_and(attempts = 1 AND CASE WHEN config ->> 'kind' IN ('nul', 'surrogate') THEN status = 'COMPLETED'
		ELSE status = 'FAILED' AND error <> '' END) FROM notifyworker.jobs`)
	id := r.job("bad", `{"kind": "none"}`)
	atMost(t, "a good job after them", r.until(10*time.Second, "a good one is done", "SELECT status = 'COMPLETED' FROM notifyworker.jobs WHERE id = $1", id), 2*time.Second)
	if p.gone() {
		t.Error("the worker has ended")
	}
}
