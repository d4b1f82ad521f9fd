package faults

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// The pod is killed between the acceptance of a refresh, each of its chunks, and its completion. The recomputation is an
// endpoint, so that the moment is exact: at least once is what can be had there, and is what is asked.
func TestThePodKilledAtAnyStepOfARefreshLeavesEveryAcceptedIDRecomputed(t *testing.T) {
	steps := []struct {
		name   string
		at     int  // kill in this call of the recomputation, from 1 on; 0 before the first
		answer bool // after the answer was sent
	}{
		{"after the acceptance", 0, false},
		{"in the first chunk", 1, false},
		{"after the first chunk's answer", 1, true},
		{"in the second chunk", 2, false},
		{"in the last chunk", 3, false},
		{"after the last chunk's answer", 3, true},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			r := onDatabase(t)
			var calls atomic.Int64
			var victim atomic.Pointer[process]
			dead := make(chan time.Time, 1)
			die := func() {
				victim.Load().kill()
				dead <- time.Now()
			}
			e := serve(t, func(c call) string {
				if int(calls.Add(1)) == s.at {
					if s.answer {
						go die()
					} else {
						die()
					}
				}
				return ""
			})
			args := []string{"--recompute=" + e.URL, "--chunk=2", "--lease=1s"}
			if s.at == 0 {
				// Nothing runs: the one place is taken by another refresh whose call never ends.
				stuck := serve(t, func(c call) string { <-c.Gone; return "" })
				args[0] = "--recompute=" + stuck.URL
				args = append(args, "--refreshes=1")
			}
			p := r.worker(args...)
			victim.Store(p)
			if s.at == 0 {
				r.enqueue("other", "x")
				r.until(10*time.Second, "the other refresh runs", "SELECT EXISTS (SELECT FROM notifyworker.refreshes WHERE catalog_id = 'other')")
			}
			r.enqueue("c", "p1", "p2", "p3", "p4", "p5")
			if s.at == 0 {
				r.until(10*time.Second, "it is accepted", "SELECT status = 'COMPLETED' FROM notifyworker.jobs WHERE catalog_id = 'c'")
				die()
			}
			died := arrival(t, dead, 20*time.Second, "the kill")
			r.worker("--recompute="+e.URL, "--chunk=2") // with the default lease, so that it can't lose what it has taken over
			r.until(30*time.Second, "all refreshes are done", "SELECT count(*) FILTER (WHERE status <> 'DONE') = 0 AND count(*) > 0 FROM notifyworker.refreshes")
			atMost(t, "from the kill to the last price, with a lease of 1 s", time.Since(died), 6*time.Second)
			var got []string
			for _, c := range e.seen() {
				got = append(got, c.ProductIDs...)
			}
			for _, id := range []string{"p1", "p2", "p3", "p4", "p5"} {
				if !slices.Contains(got, id) {
					t.Errorf("%s was accepted and never recomputed; recomputed: %v", id, got)
				}
			}
			if len(got) > 5+1+2 {
				t.Errorf("%d recomputations for 6 ids: at most the chunk of the kill is repeated: %v", len(got), got)
			}
			r.settle(10 * time.Second)
		})
	}
}

func TestAKilledPodsRefreshGoesOnWithinTenSecondsByDefault(t *testing.T) {
	r := onDatabase(t)
	calls := make(chan call, 10)
	var first atomic.Bool
	e := serve(t, func(c call) string {
		calls <- c
		if first.CompareAndSwap(false, true) {
			select {
			case <-c.Gone:
			case <-time.After(time.Minute):
			}
		}
		return ""
	})
	victim := r.worker("--recompute=" + e.URL)
	r.enqueue("c", "p1")
	r.until(10*time.Second, "it is accepted", "SELECT status = 'COMPLETED' FROM notifyworker.jobs")
	arrival(t, calls, 10*time.Second, "the refresh begins")
	r.worker("--recompute=" + e.URL)
	victim.kill()
	died := time.Now()
	again := arrival(t, calls, 30*time.Second, "the refresh goes on")
	atMost(t, "from kill -9 to the refresh's next call", again.At.Sub(died), recovery)
	r.settle(10 * time.Second)
}
