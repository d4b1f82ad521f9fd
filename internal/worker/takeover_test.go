package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// stray is a job that was handed to another worker, which lets it lie.
func (x *world) stray() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.serial++
	id := x.serial
	x.rows[id] = &fakeRow{Job: queue.Job{ID: id, Type: "t", Token: "another's", CreatedAt: time.Now()}, status: "running", leaseAt: time.Now().Add(x.lease), elsewhere: true}
	return id
}

func TestAJobThatAnotherWorkerLetsLieIsTakenOverAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		id := x.stray()
		x.heard("another", id)
		pass(takeOverAfter - time.Millisecond)
		if n := x.count("TakeOver"); n != 0 {
			t.Errorf("it looked %d times before its time", n)
		}
		pass(takeOverTogether + 5*time.Millisecond)
		x.wantCompleted(t, id)
		if n := x.w.Stats().TookOver; n != 1 {
			t.Errorf("%d taken over, want 1", n)
		}
		x.finish(t)
	})
}

func TestThoseWhoLookAfterAnothersJobHaveEachAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []string{me, "b", "c", "d", "e"}
		places := map[int]int{}
		for i := range 50 {
			owner := "owner" + strings.Repeat("x", i)
			all := append([]string{owner}, ids...)
			seen := map[int]int{}
			for _, id := range ids {
				w := &Worker{cfg: Config{ID: id}}
				w.turns.among(all)
				place := w.standsBy(listen.Handed{Worker: owner, Job: 1})
				seen[place]++
				if id == me {
					places[place]++
				}
			}
			if len(seen) != len(ids) {
				t.Errorf("of %d workers two have the same place: %v", len(ids), seen)
			}
		}
		if len(places) != len(ids) {
			t.Errorf("one worker has the places %v only", places)
		}
	})
}

func TestWhatCannotBeTakenOverForNowIsTakenOverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			time.Sleep(100 * time.Millisecond)
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 2 })
		var ids []int64
		for range 7 {
			id := x.stray()
			ids = append(ids, id)
			x.heard("another", id)
		}
		fails := 3
		x.setFail(func(method string) error {
			if method == "TakeOver" && fails > 0 {
				fails--
				return errGone
			}
			return nil
		})
		pass(time.Second)
		x.wantCompleted(t, ids...)
		x.setFail(nil)
		pass(time.Minute)
		calls := x.count("TakeOver")
		pass(time.Minute)
		if n := x.count("TakeOver"); n != calls {
			t.Errorf("it goes on looking after what is done: %d calls", n-calls)
		}
		x.finish(t)
	})
}

// The process that was handed the job has died, with its session: the lease counts, and no look has told of it.
func TestTheLeaseOfAnothersHandedJobIsKnownWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		pass(31 * time.Second) // a sweep has just been
		for range 3 {
			id := x.stray()
			x.mu.Lock()
			x.rows[id].elsewhere = false
			x.mu.Unlock()
			x.heard("another", id)
			pass(9 * time.Second)
			x.wantCompleted(t, id)
		}
		x.finish(t)
	})
}

// By what the beats told it may be anywhere in the line.
func TestEveryPlaceInTheLineComesWithinATenthOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), func(_ *Config, f *fakeStore) {
			for _, id := range []string{me, "b", "c", "d", "e", "f", "g"} {
				f.wanting(id)
			}
		})
		met := map[int]bool{}
		for owner := "another"; len(met) < 7; owner += "x" {
			met[x.w.standsBy(listen.Handed{Worker: owner, Job: 1})] = true
			id := x.stray()
			x.heard(owner, id)
			pass(100 * time.Millisecond)
			x.wantCompleted(t, id)
		}
		x.finish(t)
	})
}

func TestWhoIsToldThatSomethingLiesThereTakesOverWhatWasHandedToAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		id := x.stray()
		pass(50 * time.Millisecond) // as work_lies_there asks for
		x.bell.Ring(listen.Unheard)
		pass(20 * time.Millisecond)
		x.wantCompleted(t, id)
		x.finish(t)
	})
}

// A job was handed to somebody while this worker did not listen, and nobody else did.
func TestWhoBeginsToListenTakesOverWhatNobodyHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		id := x.stray()
		x.bell.Ring(listen.Connected)
		pass(longestCall - time.Millisecond)
		if n := x.count("TakeOver"); n != 0 {
			t.Errorf("it looked %d times before whoever was handed it had its time", n)
		}
		heardOf := x.stray() // since it listens it is told of what is handed over, and that has a time of its own
		pass(takeOverTimes*takeOverApart + 5*time.Millisecond)
		x.wantCompleted(t, id)
		if x.row(heardOf).status != "running" {
			t.Errorf("it took over what was handed to another after it began to listen")
		}
		pass(time.Second)
		if n := x.count("TakeOver"); n != 1 {
			t.Errorf("it looked %d times, want once", n)
		}
		pass(10 * time.Second) // its lease
		x.finish(t)
	})
}

// It has no slot at that time, then errors, and then more jobs than slots.
func TestWhatNobodyHeardOfIsTakenOverAsSoonAsItCanBe(t *testing.T) {
	for _, cause := range []listen.Cause{listen.Connected, listen.Unheard} {
		synctest.Test(t, func(t *testing.T) {
			x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
				time.Sleep(300 * time.Millisecond)
				return queue.Outcome{}
			}), func(c *Config, _ *fakeStore) { c.Slots = 2 })
			var ids []int64
			for range 5 {
				ids = append(ids, x.stray())
			}
			pass(takeOverAfter)
			own := []int64{x.enqueue("t", 0, 0), x.enqueue("t", 0, 0)}
			fails := 2
			x.setFail(func(method string) error {
				if method == "TakeOver" && fails > 0 {
					fails--
					return errGone
				}
				return nil
			})
			pass(10 * time.Millisecond)
			x.bell.Ring(cause)
			rings := x.bell.Rings()[listen.HandedOver]
			pass(250 * time.Millisecond)
			if n := x.bell.Rings()[listen.HandedOver] - rings; n > 1 || x.count("TakeOver") != 0 {
				t.Errorf("%s: full, its loop turned %d times for it and asked %d times", cause, n, x.count("TakeOver"))
			}
			pass(2 * time.Second)
			x.wantCompleted(t, append(own, ids...)...)
			x.finish(t)
		})
	}
}

// After a lease's time there is nothing left to be looked after.
func TestWhatNobodyHeardOfIsForgottenWhenItsLeaseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			time.Sleep(watchFor + time.Second)
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		id := x.enqueue("t", 0, 0)
		pass(10 * time.Millisecond)
		x.bell.Ring(listen.Unheard)
		pass(watchFor + 2*time.Second)
		x.wantCompleted(t, id)
		if n := x.count("TakeOver"); n != 0 {
			t.Errorf("it looked %d times", n)
		}
		x.finish(t)
	})
}
