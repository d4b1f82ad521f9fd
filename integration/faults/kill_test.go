package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// recovery is the promise for kill -9 with default settings: from the death of a worker to the next start of its job.
const recovery = 10 * time.Second

func TestAKilledWorkersJobStartsAnewWithinTenSecondsByDefault(t *testing.T) {
	r := onDatabase(t)
	started := make(chan call, 10)
	hold := make(chan struct{})
	e := serve(t, func(c call) string {
		started <- c
		if c.Attempt == 1 {
			select {
			case <-hold:
			case <-c.Gone:
			}
		}
		return `{"by": "attempt"}`
	})
	first := r.worker("--handler=slow=" + e.URL)
	id := r.job("slow", "{}")
	arrival(t, started, 10*time.Second, "the job starts")
	second := r.worker("--handler=slow=" + e.URL) // no more than awake: it knows nothing of the job
	token := ask[string](r, "SELECT lock_token::text FROM notifyworker.jobs WHERE id = $1", id)
	first.kill()
	died := time.Now()
	again := arrival(t, started, 30*time.Second, "the job starts again")
	atMost(t, "from kill -9 to the job's next start", again.At.Sub(died), recovery)
	if again.Attempt != 2 {
		t.Errorf("the job started as attempt %d, want 2", again.Attempt)
	}
	second.await(0, 10*time.Second, "that it rescued the job", says("job rescued", "job_id", fmt.Sprint(id)))
	r.until(10*time.Second, "the job is completed", "SELECT status = 'COMPLETED' FROM notifyworker.jobs WHERE id = $1", id)
	// Fenced: the dead worker's token concludes nothing, should its last statement still be on its way.
	if got := ask[string](r, "SELECT outcome FROM notifyworker.requeue($1, 'failed', $2::uuid, 'a late failure')", id, token); got != "lost" {
		t.Errorf("a conclusion by the dead worker's token: got %s, want lost", got)
	}
}

func TestWorkersKilledAtRandomMomentsUnderLoadLoseNothing(t *testing.T) {
	r := onDatabase(t)
	r.exec("UPDATE ledger.pace SET seconds = 0.005")
	args := []string{"--chunk=3", "--lease=1s", "--slots=4", "--refreshes=4"}
	workers := []*process{r.worker(args...), r.worker(args...), r.worker(args...)}
	load := r.clients(6, 9, 15*time.Millisecond)
	kills := 0
	for end := time.Now().Add(long(12 * time.Second)); time.Now().Before(end); kills++ {
		time.Sleep(time.Duration(200+rand.IntN(1000)) * time.Millisecond) // the fault itself: a random moment
		i := rand.IntN(len(workers))
		workers[i].kill()
		workers[i] = r.launch(r.url, args...)
	}
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
	t.Logf("%d workers killed", kills)
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE attempts > 1 OR error LIKE 'the lease of worker%'"); n == 0 && kills > 5 {
		t.Log("no job was running at any of the kills")
	}
}

// A job that kills its worker each time is the worst neighbour there is. Its attempts are counted when they begin, so it ends.
func TestAJobThatKillsItsWorkerEachTimeEndsAsFailedAndDelaysNoOtherCatalog(t *testing.T) {
	r := onDatabase(t)
	var mu sync.Mutex
	workers := map[string]*process{}
	deaths := make(chan string, 10)
	serveDeadly := func(name string) string {
		e := serve(t, func(c call) string {
			mu.Lock()
			p := workers[name]
			mu.Unlock()
			p.kill()
			deaths <- name
			return ""
		})
		return e.URL
	}
	urls := map[string]string{"a": serveDeadly("a"), "b": serveDeadly("b"), "c": serveDeadly("c")}
	run := func(name string) {
		mu.Lock() // until it is known by its name, or its first call would find the one before
		p := r.launch(r.url, "--handler=deadly="+urls[name], "--lease=1s")
		workers[name] = p
		mu.Unlock()
		p.await(0, startup, "that it has started", says("worker started"))
	}
	for name := range urls {
		run(name)
	}
	load := r.clients(2, 40, 20*time.Millisecond)
	id := ask[int64](r, "SELECT job_id FROM notifyworker.enqueue_job('deadly', max_attempts => 3)")
	// A worker that is starved may lose an attempt before it calls anybody: then fewer die of the three.
	killed, began := 0, time.Now()
	for failed := false; !failed || len(deaths) > 0; {
		select {
		case name := <-deaths:
			killed++
			run(name)
		case <-time.After(20 * time.Millisecond): // the server has no event for it
			failed = ask[bool](r, "SELECT status = 'FAILED' AND attempts = 3 FROM notifyworker.jobs WHERE id = $1", id)
		}
		if time.Since(began) > patient(time.Minute) {
			t.Fatalf("the job has killed %d workers and is not FAILED:\n%s", killed, r.state())
		}
	}
	if killed > 3 {
		t.Errorf("a job of 3 attempts killed %d workers", killed)
	} else if killed < 3 {
		blame(t, "of the job's 3 attempts %d killed a worker", killed)
	}
	load.stop()
	r.settle(30 * time.Second)
	v := r.judge(load)
	// What runs on the worker that dies waits for the lease of 1 s and its rescue; nothing else waits at all.
	atMost(t, "the slowest id", v.Slowest, 4*time.Second)
	late := ask[float64](r, `SELECT percentile_disc(0.75) WITHIN GROUP (ORDER BY extract(epoch FROM m.at - e.at)::float8) FROM ledger.enqueued e JOIN ledger.recomputed m USING (product)`)
	atMost(t, "three ids of four", time.Duration(late*float64(time.Second)), time.Second)
}
