package worker

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// There is no poll in these tests: a job that is not found stays.

func TestNoWakeUpFallsBetween(t *testing.T) {
	const slack = 60 * time.Millisecond // a calm-down, a commit under way, some statements
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			work := time.Duration(rnd.IntN(8)) * time.Millisecond
			x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome {
				time.Sleep(work)
				return queue.Outcome{}
			}), func(c *Config, f *fakeStore) {
				c.Slots = 1 + rnd.IntN(30)
				f.takes = time.Duration(100+rnd.IntN(2000)) * time.Microsecond
			})
			var ids []int64
			for range 200 {
				commit := time.Duration(rnd.IntN(5)) * time.Millisecond
				if rnd.IntN(4) > 0 {
					ids = append(ids, x.enqueue("t", 0, commit))
				} else {
					done := make(chan int64, 3) // several at once
					for range 3 {
						go func() { done <- x.enqueue("t", 0, commit) }()
					}
					ids = append(ids, <-done, <-done, <-done)
				}
				gap := []int{0, 200, 3_000, 40_000, 120_000}[rnd.IntN(5)]
				time.Sleep(time.Duration(rnd.IntN(gap+1)) * time.Microsecond)
			}
			time.Sleep(10 * time.Second)
			full := time.Duration(len(ids)) * (work + 4*x.takes)
			for _, id := range ids {
				row := x.row(id)
				if row.status != "completed" {
					t.Fatalf("seed %d: job %d is %s after 10 s of quiet: a wake-up was lost", seed, id, row.status)
				}
				if w := waited(row.Job); w > slack+full {
					t.Errorf("seed %d: job %d waited %v", seed, id, w)
				}
			}
			x.finish(t)
		})
	}
}

func TestASleeperIsWokenAtOnceAndKeepsItsWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		time.Sleep(time.Second)
		for range 300 {
			id := x.enqueue("t", 0, 0)
			time.Sleep(10 * time.Millisecond)
			if row := x.row(id); row.status != "completed" || waited(row.Job) > 2*time.Millisecond {
				t.Fatalf("job is %s, waited %v", row.status, waited(row.Job))
			}
		}
		if n := x.count("WantNotify"); n != 1 {
			t.Errorf("%d changes of the wish at 100 jobs/s, want the first only", n)
		}
		// One for each job, and a whole look after brief ones, every 20 ms at most.
		if n := x.count("Reserve"); n > 300+150+10 {
			t.Errorf("%d looks for 300 jobs", n)
		}
		x.finish(t)
	})
}

func TestABusyWorkerWantsNoNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome {
			time.Sleep(3 * time.Millisecond)
			return queue.Outcome{}
		}), nil)
		time.Sleep(time.Second)
		rings := x.bell.Rings()[listen.Notified]
		for range 4000 { // 2,000 jobs a second for 2 s
			x.enqueue("t", 0, 0)
			time.Sleep(500 * time.Microsecond)
		}
		if n := x.bell.Rings()[listen.Notified] - rings; n > 400 {
			t.Errorf("%d of 4000 jobs notified", n)
		}
		if n := x.w.Stats().Toggles; n > 3 {
			t.Errorf("%d changes of the wish under steady load", n)
		}
		time.Sleep(time.Second)
		x.mu.Lock()
		wants := x.wants
		x.mu.Unlock()
		if !wants {
			t.Error("a second after the load it does not want to be woken")
		}
		if n := x.w.Stats().Concluded[Conclusion{"t", "completed"}]; n != 4000 {
			t.Errorf("%d completed", n)
		}
		x.finish(t)
	})
}

func TestARateOfNotificationsIsBusyToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) { f.takes = 50 * time.Microsecond })
		time.Sleep(time.Second)
		for range 400 { // with a rest after each two, but 800 notifying commits in 0.6 s
			x.enqueue("t", 0, 0)
			time.Sleep(100 * time.Microsecond)
			x.enqueue("t", 0, 0)
			time.Sleep(1400 * time.Microsecond)
		}
		if n := x.bell.Rings()[listen.Notified]; n > 200 {
			t.Errorf("%d of 800 jobs notified", n)
		}
		x.finish(t)
	})
}

func TestAFullWorkerTakesItsWishBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome { <-release; return queue.Outcome{} }),
			func(c *Config, _ *fakeStore) { c.Slots = 2 })
		time.Sleep(time.Second)
		for range 5 {
			x.enqueue("t", 0, 0)
			time.Sleep(time.Second)
		}
		if n := x.count("WantNotify"); n != 2 {
			t.Errorf("%d changes of the wish, want true once and false once", n)
		}
		rings := x.bell.Rings()[listen.Notified]
		x.enqueue("t", 0, 0)
		if x.bell.Rings()[listen.Notified] != rings {
			t.Error("a job notified a worker without a free slot")
		}
		close(release)
		time.Sleep(time.Second)
		if n := x.w.Stats().Concluded[Conclusion{"t", "completed"}]; n != 6 {
			t.Errorf("%d completed, want 6", n)
		}
		x.finish(t)
	})
}

func TestASleepThatCanNotBeTrustedIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
			go f.enqueue("t", 0, 20*time.Second) // decided not to ring before the worker came, and stays open
		})
		time.Sleep(10 * time.Second)
		looks := x.count("Reserve")
		if looks < 5 || looks > 25 {
			t.Errorf("%d looks in 10 s, want one about every 0.5 to 1.5 s", looks)
		}
		time.Sleep(11*time.Second + barrierAgain)
		if row := x.row(1); row.status != "completed" {
			t.Errorf("the job of the long commit is %s", row.status)
		}
		looks = x.count("Reserve")
		time.Sleep(10 * time.Second)
		if n := x.count("Reserve") - looks; n > 1 {
			t.Errorf("%d looks in 10 s of sleep that can be trusted", n)
		}
		if x.w.Stats().FailedBarriers == 0 {
			t.Error("the failed barriers are not counted")
		}
		x.finish(t)
	})
}

func TestPollingLooksAtEachRingAndWantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(c *Config, _ *fakeStore) { c.Polling = true })
		time.Sleep(time.Second)
		for range 5 {
			id := x.enqueue("t", 0, 0)
			time.Sleep(time.Second)
			if row := x.row(id); row.status != "pending" {
				t.Errorf("before the poll the job is %s", row.status)
			}
			x.bell.Ring(listen.Poll)
			time.Sleep(10 * time.Millisecond)
			if row := x.row(id); row.status != "completed" {
				t.Errorf("after the poll the job is %s", row.status)
			}
		}
		if x.count("WantNotify")+x.count("Barrier") != 0 {
			t.Error("it asked for notifications")
		}
		if n := x.w.Stats().Missed; n != 0 {
			t.Errorf("%d missed wake-ups, where none were wanted", n)
		}
		x.finish(t)
	})
}

func TestAWorkerThatWasThoughtDeadSaysItsWishAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(x *world)
	}{
		{"its row is gone", func(x *world) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.registered, x.wants = false, false
		}},
		{"its beats failed for a while", func(x *world) {
			x.setFail(func(method string) error {
				if method == "Beat" {
					return errGone
				}
				return nil
			})
			time.Sleep(2 * time.Minute)
			x.mu.Lock()
			x.wants = false // as commits saw it
			x.mu.Unlock()
			x.setFail(nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(ok), nil)
				time.Sleep(time.Minute)
				c.harm(x)
				id := x.enqueue("t", 0, 0) // nobody rings for it
				time.Sleep(defaultBeat + time.Second)
				if row := x.row(id); row.status != "completed" {
					t.Errorf("job is %s a beat later", row.status)
				}
				id = x.enqueue("t", 0, 0)
				time.Sleep(10 * time.Millisecond)
				if row := x.row(id); row.status != "completed" {
					t.Errorf("the next job is %s", row.status)
				}
				x.finish(t)
			})
		})
	}
}

func TestAnIdleWorkerAsksLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		time.Sleep(time.Second)
		total := func() (n int) {
			for _, m := range []string{"Reserve", "Complete", "Requeue", "Extend", "Rescue", "Sweep", "Register", "Beat", "WantNotify", "Barrier"} {
				n += x.count(m)
			}
			return n
		}
		before := total()
		for range 20 { // ten minutes with the slow poll
			time.Sleep(30 * time.Second)
			x.bell.Ring(listen.Poll)
		}
		if rate := float64(total()-before) / 600; rate > 0.4 {
			t.Errorf("%.2f statements a second, want at most 0.4", rate)
		}
		x.finish(t)
	})
}

func TestWhatOnlyThePollFoundIsAMissedWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		time.Sleep(time.Second)
		x.mu.Lock()
		x.wants = false // somebody's hand
		x.mu.Unlock()
		x.enqueue("t", 0, 0)
		time.Sleep(2 * time.Second)
		x.bell.Ring(listen.Poll)
		time.Sleep(time.Second)
		if n := x.w.Stats().Missed; n != 1 {
			t.Errorf("%d missed wake-ups, want 1", n)
		}
		x.finish(t)
	})
}
