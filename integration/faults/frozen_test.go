package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// rowsAs is everything that is stored of some rows, versions included: any write to them changes it.
func (r *rig) rowsAs(table, where string, args ...any) string {
	r.t.Helper()
	rows, err := r.db.Query(context.Background(), "SELECT to_jsonb(x) || jsonb_build_object('xmin', x.xmin::text) FROM notifyworker."+table+" x WHERE "+where+" ORDER BY id", args...)
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%s", all)
}

func TestAWorkerFrozenPastItsLeaseChangesNoRowWhenItThaws(t *testing.T) {
	r := onDatabase(t)
	started := make(chan call, 10)
	answer := make(chan struct{})
	e := serve(t, func(c call) string {
		started <- c
		if c.Attempt == 1 {
			select {
			case <-answer:
			case <-c.Gone:
			}
		}
		return fmt.Sprintf(`{"attempt": %d}`, c.Attempt)
	})
	frozen := r.worker("--handler=slow="+e.URL, "--lease=3s") // no less: a starved worker must keep it until it is frozen
	id := r.job("slow", "{}")
	arrival(t, started, 10*time.Second, "the job starts")
	r.worker("--handler=slow=" + e.URL)
	frozen.freeze()
	again := arrival(t, started, 20*time.Second, "the job starts again elsewhere")
	if again.Attempt != 2 {
		t.Errorf("the job started as attempt %d, want 2", again.Attempt)
	}
	r.until(10*time.Second, "the job is completed elsewhere", "SELECT status = 'COMPLETED' AND result ->> 'attempt' = '2' FROM notifyworker.jobs WHERE id = $1", id)
	before := r.rowsAs("jobs", "id = $1", id)
	mark := frozen.log.mark()
	close(answer) // the first attempt has succeeded as well: its answer lies in the socket
	frozen.send(syscall.SIGCONT)
	frozen.await(mark, 20*time.Second, "that it lost the job", says("job concluded", "outcome", "lost", "job_id", fmt.Sprint(id)))
	frozen.expected.Store(false) // it goes on
	if n := frozen.metric("notifyworker_jobs_lost_total"); n != 1 {
		t.Errorf("it counts %v lost jobs, want 1", n)
	}
	if after := r.rowsAs("jobs", "id = $1", id); after != before {
		t.Errorf("the thawed worker has changed the row:\n%s\nwas\n%s", after, before)
	}
}

func TestAWorkerFrozenInTheMidstOfARefreshChangesNothingWhenItThaws(t *testing.T) {
	r := onDatabase(t)
	calls := make(chan call, 100)
	answer := make(chan struct{})
	slow := make(chan struct{}, 1)
	slow <- struct{}{}
	e := serve(t, func(c call) string {
		calls <- c
		select {
		case <-slow: // only the first call
			select {
			case <-answer:
			case <-c.Gone:
			}
		default:
		}
		return ""
	})
	args := []string{"--recompute=" + e.URL, "--chunk=1"}
	frozen := r.worker(append(args, "--lease=3s")...) // no less: a starved worker must keep it until it is frozen
	r.enqueue("c", "p1", "p2", "p3")
	arrival(t, calls, 10*time.Second, "the recomputation begins")
	r.worker(args...)
	frozen.freeze()
	for _, want := range []string{"p1", "p2", "p3"} {
		c := arrival(t, calls, 20*time.Second, "the other worker goes on with "+want)
		if len(c.ProductIDs) != 1 || c.ProductIDs[0] != want {
			t.Errorf("recomputed elsewhere: %v, want %s", c.ProductIDs, want)
		}
	}
	r.until(10*time.Second, "the refresh is done", "SELECT bool_and(status = 'DONE') FROM notifyworker.refreshes")
	before := r.rowsAs("refreshes", "true")
	mark := frozen.log.mark()
	close(answer)
	frozen.send(syscall.SIGCONT)
	frozen.await(mark, 20*time.Second, "that it lost the refresh", says("refresh lost"))
	if n := frozen.metric("notifyworker_engine_lost_total"); n != 1 {
		t.Errorf("it counts %v lost refreshes, want 1", n)
	}
	if after := r.rowsAs("refreshes", "true"); after != before {
		t.Errorf("the thawed worker has changed the row:\n%s\nwas\n%s", after, before)
	}
	if n := len(e.seen()); n != 4 {
		t.Errorf("the recomputation was called %d times, want 4: once before the freeze and three times after", n)
	}
}

// Frozen and thawed again and again, under load, so that leases end in every state of a job.
func TestWorkersFrozenAgainAndAgainLoseNothing(t *testing.T) {
	r := onDatabase(t)
	r.exec("UPDATE ledger.pace SET seconds = 0.003")
	args := []string{"--chunk=2", "--lease=600ms", "--slots=4"}
	workers := []*process{r.worker(args...), r.worker(args...), r.worker(args...)}
	load := r.clients(4, 6, 15*time.Millisecond)
	for i, end := 0, time.Now().Add(long(10*time.Second)); time.Now().Before(end); i++ {
		p := workers[i%len(workers)]
		p.freeze()
		time.Sleep(1200 * time.Millisecond) // the fault itself: twice the lease
		p.send(syscall.SIGCONT)
		time.Sleep(100 * time.Millisecond)
	}
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
}
