package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// What was heard of is among what the table has, too.
func TestAJobThatIsHeardOfAndAskedForStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		starts := map[int64]int{}
		x := beginHanded(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			mu.Lock()
			starts[j.ID]++
			mu.Unlock()
			time.Sleep(500 * time.Microsecond) // shorter than a call
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		x.hears(false)
		first, second := x.enqueue("t", 0, 0), x.enqueue("t", 0, 0)
		x.w.handovers.doubt()
		for _, id := range []int64{first, second, second} {
			go x.heard(me, id)
		}
		pass(time.Second)
		mu.Lock()
		if starts[first] != 1 || starts[second] != 1 {
			t.Errorf("started %v times, want each once", starts)
		}
		mu.Unlock()
		x.finish(t)
	})
}

func TestAJobThatSomebodyLooksAfterHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.setMet(true)
		x.hears(false)
		held := x.enqueue("t", 0, 0)
		x.mu.Lock()
		x.metOnly = held
		x.mu.Unlock()
		x.hears(true)
		x.heard(me, held)
		pass(2 * time.Second) // by now it is asked for only now and then
		takes := x.asked()
		for range 50 {
			id := x.enqueue("t", 0, 0)
			pass(10 * time.Millisecond)
			x.wantCompleted(t, id)
		}
		if n := x.asked() - takes; n > 50+5 {
			t.Errorf("%d calls for 50 jobs and one that can't be had", n)
		}
		x.setMet(false)
		pass(time.Second)
		x.wantCompleted(t, held)
		x.finish(t)
	})
}

// Another worker's call about a job takes as long as the owner's. Through a slow network both arrive late.
func TestOthersLookLaterWhereCallsTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), func(_ *Config, f *fakeStore) { f.takes = 50 * time.Millisecond })
		for range 20 {
			x.enqueue("t", 0, 0)
			time.Sleep(200 * time.Millisecond)
		}
		job := x.stray()
		heard := time.Now()
		x.heard("another", job)
		for x.count("TakeOver") == 0 {
			time.Sleep(time.Millisecond)
		}
		if after := time.Since(heard); after < 140*time.Millisecond || after > 250*time.Millisecond {
			t.Errorf("it looked after %v, want three calls of 50 ms", after)
		}
		x.finish(t)
	})
}

// While a stopped worker's handlers go on it beats, so commits would go on handing it jobs.
func TestAStopThatCannotTellTheTableIsHandedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		x := beginHanded(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			if j.ID == 1 {
				<-release
			}
			return queue.Outcome{}
		}), func(c *Config, f *fakeStore) {
			c.Seat = &fakeSeat{hearing: listen.Listening, dropped: func() { f.mu.Lock(); defer f.mu.Unlock(); f.hands = false }}
		})
		x.enqueue("t", 0, 0)
		pass(time.Millisecond)
		x.setFail(func(method string) error {
			if method == "WantNotify" {
				return errGone
			}
			return nil
		})
		x.stop()
		pass(100 * time.Millisecond)
		if x.isHanded() {
			t.Error("commits hand it jobs")
		}
		x.setFail(nil)
		close(release)
		x.finish(t)
	})
}

// Who goes into reserve has hung up before: what it was handed between that and the moment when commits know, it has not heard of.
func TestWhoGoesIntoReserveAsksForWhatItWasHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seat := &fakeSeat{hearing: listen.Listening}
		x := beginHanded(t, handle(ok), func(c *Config, f *fakeStore) { c.Seat, f.alive = seat, listen.Everybody+1 })
		if !x.isHanded() {
			t.Fatal("it is handed nothing")
		}
		seat.turn(listen.Reserve)
		x.hears(false)
		id := x.enqueue("t", 0, 0)
		x.bell.Ring(listen.Nudged)
		pass(100 * time.Millisecond)
		x.wantCompleted(t, id)
		if said, _ := seat.take(); slices.Contains(said, "rise") || x.isHanded() {
			t.Errorf("it says %v; it is handed jobs: %v", said, x.isHanded())
		}
		x.finish(t)
	})
}
