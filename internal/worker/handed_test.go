package worker

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// me is the worker of these tests, as notifications name it.
const me = "00000000-0000-4000-8000-00000000000a"

// beginHanded runs a worker that commits hand their jobs, and waits until it sleeps.
func beginHanded(t *testing.T, handlers map[string]queue.Handler, change func(*Config, *fakeStore)) *world {
	t.Helper()
	x := begin(t, handlers, func(c *Config, f *fakeStore) {
		c.ID, c.TakesHanded = me, true
		if change != nil {
			change(c, f)
		}
	})
	x.mu.Lock()
	x.hand = func(id int64) { go x.heard(me, id) }
	x.mu.Unlock()
	pass(time.Second)
	return x
}

// isHanded says whether commits hand the worker their jobs.
func (f *fakeStore) isHanded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hands
}

// hears says whether the worker is told of what it is handed.
func (x *world) hears(does bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hand = nil
	if does {
		x.hand = func(id int64) { go x.heard(me, id) }
	}
}

// wantCompleted wants a job to have been started once.
func (x *world) wantCompleted(t *testing.T, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if row := x.row(id); row.status != "completed" || row.Attempt != 1 {
			t.Errorf("job %d is %s after %d attempts, want it completed after one", id, row.status, row.Attempt)
		}
	}
}

func TestAHandedJobStartsWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		looks := x.count("Reserve")
		for range 20 {
			id := x.enqueue("t", 0, 0)
			time.Sleep(5 * time.Millisecond)
			x.wantCompleted(t, id)
			if w := waited(x.row(id).Job); w > 0 {
				t.Errorf("it waited %v to be reserved", w)
			}
		}
		if n := x.count("Reserve"); n != looks {
			t.Errorf("%d looks for jobs that were handed over", n-looks)
		}
		if n := x.count("Take"); n != 20 {
			t.Errorf("%d calls took 20 jobs", n)
		}
		x.finish(t)
	})
}

func TestAHandedJobIsLetOnceWhenItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			<-end
			return queue.Outcome{}
		}), nil)
		letGo := func() []int64 {
			x.mu.Lock()
			defer x.mu.Unlock()
			return slices.Clone(x.let)
		}
		id := x.enqueue("t", 0, 0)
		pass(2 * idleTurn)
		if l := letGo(); len(l) > 0 {
			t.Errorf("let while it runs: %v", l)
		}
		close(end)
		pass(2 * idleTurn)
		if l := letGo(); !slices.Equal(l, []int64{id}) {
			t.Errorf("let: %v, want job %d once", l, id)
		}
		x.finish(t)
	})
}

// At which rate a server is better asked for many jobs at once depends on the server: where most of the time goes into taking them
// one by one.
func TestAWorkerIsBusyWhenMostOfItsTimeIsAsking(t *testing.T) {
	for _, k := range []struct {
		name  string
		takes time.Duration
		busy  bool
	}{{"quick server", 100 * time.Microsecond, false}, {"slow server", 2 * time.Millisecond, true}} {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := beginHanded(t, handle(ok), func(_ *Config, f *fakeStore) { f.takes = k.takes })
				var first time.Duration
				for began := time.Now(); time.Since(began) < 400*time.Millisecond; time.Sleep(1800 * time.Microsecond) { // less than 100 within 100 ms
					x.enqueue("t", 0, 0)
					if first == 0 && !x.isHanded() {
						first = time.Since(began)
					}
				}
				if busy := first != 0; busy != k.busy || first > 3*busyWithin {
					t.Errorf("commits handed it no job for the first time after %v (0: never)", first)
				}
				x.finish(t)
			})
		})
	}
}

// Clients that enqueue as fast as they can are held at the rate at which their jobs are taken one by one, until the worker is busy.
func TestAWorkerIsBusySoonWhenItsAskingHasNoBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), func(_ *Config, f *fakeStore) { f.takes = 2 * time.Millisecond })
		began := time.Now()
		for x.isHanded() && time.Since(began) < time.Second { // each as soon as the last one is taken
			x.enqueue("t", 0, 0)
			pass(time.Millisecond / 10)
		}
		if took := time.Since(began); took > busyWithin/2 {
			t.Errorf("commits handed it one job after the other for %v", took)
		}
		x.finish(t)
	})
}

// burst hands a worker so many jobs at once, and announces as many others by saying that there are many; it returns all of them.
func (x *world) burst(handed, others int) (ids []int64) {
	for range handed {
		ids = append(ids, x.enqueue("t", 0, 0))
	}
	x.hears(false)
	x.mu.Lock()
	x.hands = false // these commits find all keys taken
	x.mu.Unlock()
	for range others {
		ids = append(ids, x.enqueue("t", 0, 0))
	}
	x.mu.Lock()
	x.hands = true
	x.mu.Unlock()
	x.hears(true)
	pass(time.Duration(handed+4) * time.Millisecond) // each is taken by a call, or those that find no slot beside a look are asked for together
	for range others {
		x.bell.Ring(listen.Many)
	}
	return ids
}

// Who hears that commits wait for each other to hand it their jobs is busy at once, but not because somebody says so without a job.
func TestAWorkerIsBusyAtOnceWhenCommitsQueueUpToHandItTheirJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		for range 1000 { // forged
			x.bell.Ring(listen.Many)
			pass(5 * time.Millisecond)
			if !x.isHanded() {
				t.Fatal("it believes who says so")
			}
		}
		for range 3 { // it falls asleep again, and rises again
			pass(2 * manyAgain)
			ids := x.burst(8, 2)
			pass(6 * time.Millisecond) // a look that was under way, and the wish
			if x.isHanded() {
				t.Error("commits go on to hand it jobs one by one")
			}
			pass(10 * time.Millisecond)
			x.wantCompleted(t, ids...)
		}
		x.finish(t)
	})
}

func TestManyCommitsCountBesideJobsThatWereHandedOver(t *testing.T) {
	now := time.Now()
	sure := sleepiness{pace: usualPace(), hands: true, taken: manyHanded, wakesFrom: now.Add(-busyWithin)}
	for name, doubt := range map[string]func(*sleepiness){
		"it is handed nothing":   func(q *sleepiness) { q.hands = false },
		"too few were":           func(q *sleepiness) { q.taken-- },
		"that was a while ago":   func(q *sleepiness) { q.wakesFrom = now.Add(-busyWithin - 1) },
		"it was not worth it":    func(q *sleepiness) { q.noMany = now.Add(1) },
		"nothing speaks against": func(*sleepiness) {},
	} {
		q := sure
		doubt(&q)
		q.toldOfMany(now)
		if q.often() != (name == "nothing speaks against") {
			t.Errorf("%s: busy %v", name, q.often())
		}
	}
}

// A burst that is over when the worker has risen was not worth it; neither is the next one.
func TestBurstsMakeNoWorkerRiseAndFallAsleepForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		wishes := x.count("WantNotify")
		var ids []int64
		for range 100 { // in 5 s
			if x.isHanded() {
				ids = append(ids, x.burst(8, 4)...)
			}
			pass(50 * time.Millisecond)
		}
		if n := x.count("WantNotify") - wishes; n > 20 {
			t.Errorf("it said its wish anew %d times in 5 s", n)
		}
		x.wantCompleted(t, ids...)
		x.finish(t)
	})
}

// Whoever is busy for the time that asking takes would be so again at once if it fell asleep as soon as few jobs come.
func TestASlowNetworkMakesNoWorkerFallAsleepAndRiseForEver(t *testing.T) {
	for _, rtt := range []time.Duration{500 * time.Microsecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond} {
		for _, rate := range []int{100, 200, 300} {
			synctest.Test(t, func(t *testing.T) {
				x := beginHanded(t, handle(ok), func(_ *Config, f *fakeStore) { f.takes = rtt })
				toggles := x.w.Stats().Toggles
				random := rand.New(rand.NewPCG(1, 2))
				for began := time.Now(); time.Since(began) < 5*time.Second; {
					x.enqueue("t", 0, 0)
					time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(rate)))
				}
				if n := x.w.Stats().Toggles - toggles; n > 6 {
					t.Errorf("%d jobs a second, calls of %v: %d changes of the wish in 5 s", rate, rtt, n)
				}
				pass(time.Second)
				if !x.isHanded() {
					t.Errorf("%d jobs a second, calls of %v: a second after the load it is handed nothing", rate, rtt)
				}
				x.finish(t)
			})
		}
	}
}

// A burst is more than one call takes, and than there are slots. No ring comes after it.
func TestNothingOfABurstThatIsHandedOverIsForgotten(t *testing.T) {
	for _, n := range []int{handedAtOnce + 1, mostHanded, 3 * mostHanded} {
		synctest.Test(t, func(t *testing.T) {
			x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
				time.Sleep(20 * time.Second) // nor does a slot become free
				return queue.Outcome{}
			}), func(c *Config, _ *fakeStore) { c.Slots = 1000 })
			x.hears(false)
			var ids []int64
			for range n {
				ids = append(ids, x.enqueue("t", 0, 0))
			}
			x.w.HungUp()(t.Context()) // once for all
			pass(time.Second)
			if running, _ := x.w.slots.counts(); running != n {
				t.Errorf("of %d jobs %d run", n, running)
			}
			pass(20 * time.Second)
			x.wantCompleted(t, ids...)
			x.finish(t)
		})
	}
}

func TestAHandedJobIsNotStartedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			starts++
			time.Sleep(300 * time.Millisecond)
			return queue.Outcome{}
		}), nil)
		id := x.enqueue("t", 0, 0)
		for range 50 {
			x.heard(me, id)
			x.bell.Ring(listen.Connected)
			pass(10 * time.Millisecond)
		}
		if starts != 1 {
			t.Errorf("%d starts", starts)
		}
		x.wantCompleted(t, id)
		x.finish(t)
	})
}

// A handler goes on for a while when its lease is lost. The table may say still that the job is this worker's.
func TestAJobWhoseHandlerGoesOnIsNotStartedBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		var mu sync.Mutex
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(10 * time.Second) // deaf to its context
			mu.Lock()
			running--
			mu.Unlock()
			return queue.Outcome{}
		}), func(_ *Config, f *fakeStore) { f.lease = time.Hour })
		x.setFail(func(method string) error {
			if method == "Extend" {
				return errGone
			}
			return nil
		})
		id := x.enqueue("t", 0, 0)
		pass(time.Second)
		x.w.slots.mu.Lock()
		x.w.slots.loseLocked(x.w.slots.held[id])
		x.w.slots.mu.Unlock()
		for range 5 {
			x.heard(me, id)
			pass(time.Second)
		}
		if most != 1 {
			t.Errorf("%d handlers of one job at once", most)
		}
		x.setFail(nil)
		x.stop()
		<-x.done
		x.kill()
		x.bell.Close()
	})
}

// Somebody has the lock of a job of ours for long: the server has not noticed yet that our former session is gone, say.
// ears is a seat whose hearing changes.
// The row says when the job was reserved and when its lease ends. After an extension that is no lease's length.
func TestAHandedJobIsHeldByTheLeaseOfItsType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(func(ctx context.Context, _ queue.Job) queue.Outcome {
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Failed, Err: context.Cause(ctx)}
		}), func(c *Config, f *fakeStore) {
			c.Types, c.DrainTimeout = map[string]queue.TypeSettings{"t": {Lease: 8 * time.Second}}, -1
		})
		x.hears(false)
		id := x.enqueue("t", 0, 0)
		x.mu.Lock()
		x.rows[id].StartedAt = time.Now().Add(-6 * time.Second)
		x.rows[id].LeaseUntil = time.Now().Add(7 * time.Second) // 13 s after the start
		x.rows[id].leaseAt = x.rows[id].LeaseUntil
		x.mu.Unlock()
		x.heard(me, id)
		pass(10 * time.Millisecond)
		h := x.w.slots.working()
		if len(h) != 1 {
			t.Fatalf("%d jobs are held", len(h))
		}
		if left := time.Until(h[0].until); h[0].lease != 8*time.Second || left > 7*time.Second {
			t.Errorf("held for %v more by a lease of %v", left, h[0].lease)
		}
		x.finish(t)
	})
}

// The row's start is the commit's.
func TestTheWaitOfAHandedJobIsCountedToWhenItWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.hears(false)
		id := x.enqueue("t", 0, 0)
		time.Sleep(2 * time.Second)
		x.heard(me, id)
		pass(time.Second)
		x.wantCompleted(t, id)
		if w := x.w.Stats().Wait; w.Count != 1 || w.Sum < 2*time.Second || w.Sum > 2100*time.Millisecond {
			t.Errorf("waits: %+v", w)
		}
		x.finish(t)
	})
}
