package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// The listener takes jobs and the loop takes them back, each on its own goroutine.

// stalls has calls of this method wait until the channel is closed.
func (x *world) stalls(method string) (end chan struct{}) {
	end = make(chan struct{})
	x.setHook(func(_ context.Context, called string) {
		if called == method {
			<-end
		}
	})
	return end
}

// forget takes away a job that somebody else has by now.
func (x *world) forget(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.rows, id)
	clear(x.ends)
}

// A session may end just after it has taken a job, and with it the lock.
func TestAJobThatIsTakenAndTakenBackStartsOnce(t *testing.T) {
	for _, when := range []string{"Mine", "TakeBack"} { // calls of the loop in which the listener hears of it
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var starts atomic.Int32
				x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
					starts.Add(1)
					return queue.Outcome{}
				}), nil)
				x.hears(false)
				id := x.enqueue("t", 0, 0)
				var once sync.Once
				x.setHook(func(_ context.Context, method string) {
					if method == when {
						once.Do(func() { go x.heard(me, id) })
					}
					if method == "TakeBack" {
						x.mu.Lock()
						x.rows[id].taken = false
						x.mu.Unlock()
					}
				})
				x.bell.Ring(listen.Connected)
				pass(time.Second)
				if n := starts.Load(); n != 1 {
					t.Errorf("%d starts", n)
				}
				x.wantCompleted(t, id)
				x.finish(t)
			})
		})
	}
}

// Whoever takes a job over says of its worker that it lets jobs lie.
func TestAWorkerWhoseJobIsTakenOverWhileItAsksAgainSaysAnewThatItTakesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.setMet(true)
		id := x.enqueue("t", 0, 0)
		time.Sleep(1500 * time.Microsecond) // it has met somebody
		x.mu.Lock()
		x.met, x.hands, x.rows[id].elsewhere = false, false, true
		x.mu.Unlock()
		pass(time.Second)
		if !x.isHanded() {
			t.Error("it is handed nothing any more")
		}
		x.forget(id)
		x.finish(t)
	})
}

// Through a network that is slow enough the listener can't take them one by one.
func TestJobsDoNotPileUpInTheListener(t *testing.T) {
	for _, call := range []time.Duration{4, 8, 12, 20, 40} {
		synctest.Test(t, func(t *testing.T) {
			x := beginHanded(t, handle(ok), func(_ *Config, f *fakeStore) { f.takes = call * time.Millisecond })
			pass(2 * time.Second)
			socket, read := make(chan int64, 1000), make(chan struct{})
			go func() {
				defer close(read)
				for id := range socket {
					x.heard(me, id)
				}
			}()
			x.mu.Lock()
			x.hand = func(id int64) { socket <- id }
			x.mu.Unlock()
			worst := 0
			for range 300 {
				x.enqueue("t", 0, 0)
				time.Sleep(10 * time.Millisecond)
				worst = max(worst, len(socket))
			}
			if worst > 30 {
				t.Errorf("calls of %d ms, 100 jobs a second: up to %d waited for the listener", call, worst)
			}
			close(socket)
			<-read
			pass(3 * time.Second)
			x.finish(t)
		})
	}
}

// A server that came back from a copy gives an id for the second time.
func TestAJobUnderAnIDThatWasUsedBeforeIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		for range 2 {
			id := x.enqueue("t", 0, 0)
			pass(50 * time.Millisecond)
			x.wantCompleted(t, id)
			x.mu.Lock()
			delete(x.rows, id)
			x.serial = 0
			x.mu.Unlock()
		}
		x.finish(t)
	})
}

// Who has taken a job keeps others from it. So it starts it, whatever its loop waits for, or leaves it to others.
func TestAStalledLoopKeepsNoJobFromStarting(t *testing.T) {
	for _, stalled := range []string{"Barrier", "WantNotify", "Mine"} {
		t.Run(stalled, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := beginHanded(t, handle(ok), nil)
				end := x.stalls(stalled)
				x.w.rearm.Store(true)
				x.bell.Ring(listen.Connected)
				pass(10 * time.Millisecond)
				x.mu.Lock()
				x.hands = true // as a commit under way has seen it
				x.mu.Unlock()
				id := x.enqueue("t", 0, 0)
				pass(10 * time.Millisecond)
				x.wantCompleted(t, id)
				close(end)
				x.finish(t)
			})
		})
	}
	t.Run("Reserve", func(t *testing.T) { // all free slots are for what it finds
		synctest.Test(t, func(t *testing.T) {
			x := beginHanded(t, handle(ok), func(c *Config, _ *fakeStore) { c.Slots = 1 })
			end := x.stalls("Reserve")
			x.bell.Ring(listen.Poll)
			pass(10 * time.Millisecond)
			id := x.enqueue("t", 0, 0)
			pass(time.Second)
			if x.row(id).taken {
				t.Error("nobody can take it over")
			}
			close(end)
			pass(10 * time.Millisecond)
			x.wantCompleted(t, id)
			x.finish(t)
		})
	})
}

// A handler that may run only once at a time relies on it.
func TestLoopAndListenerTogetherFillNoMoreThanTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(3 * time.Millisecond)
			running.Add(-1)
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		for range 200 {
			x.enqueue("t", 0, 0)
			x.enqueue("t", time.Millisecond, 0)
			x.bell.Ring(listen.Poll)
			time.Sleep(2 * time.Millisecond)
		}
		pass(time.Minute)
		if n := most.Load(); n != 1 {
			t.Errorf("%d at once in one slot", n)
		}
		x.finish(t)
	})
}

// All slots may be asked for at that moment, and others have it before the loop comes to it.
func TestAWorkerWhoseJobIsTakenOverBeforeItHadASlotSaysAnewThatItTakesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		end := x.stalls("Reserve")
		x.bell.Ring(listen.Poll)
		pass(10 * time.Millisecond)
		id := x.enqueue("t", 0, 0)
		pass(50 * time.Millisecond)
		x.mu.Lock()
		x.hands, x.rows[id].elsewhere = false, true
		x.mu.Unlock()
		close(end)
		pass(time.Second)
		if !x.isHanded() {
			t.Error("it is handed nothing any more")
		}
		x.forget(id)
		x.finish(t)
	})
}

func TestAStopAsksAgainForWhatItWasHanded(t *testing.T) {
	for _, method := range []string{"Mine", "TakeBack", "Barrier"} {
		synctest.Test(t, func(t *testing.T) {
			x := beginHanded(t, handle(ok), nil)
			x.hears(false)
			id := x.enqueue("t", 0, 0)
			var failed atomic.Bool
			x.setFail(func(m string) error {
				if m == method && !failed.Swap(true) {
					return errGone
				}
				return nil
			})
			x.finish(t)
			if row := x.row(id); row.status != "pending" {
				t.Errorf("a call of %s failed: the job is %s", method, row.status)
			}
		})
	}
}

// Others' jobs are looked after all the time where many listen.
func TestALookAfterAnothersJobLeavesSlotsForWhatIsHandedOver(t *testing.T) {
	for _, stalled := range []string{"TakeOver", "Reserve"} {
		synctest.Test(t, func(t *testing.T) {
			x := beginHanded(t, handle(ok), nil)
			end := x.stalls(stalled)
			if stalled == "TakeOver" {
				x.heard("another", 4711)
			} else {
				x.bell.Ring(listen.Poll)
			}
			pass(100 * time.Millisecond)
			id := x.enqueue("t", 0, 0)
			pass(10 * time.Millisecond)
			x.wantCompleted(t, id)
			close(end)
			x.finish(t)
		})
	}
}

func TestForgedPayloadsCauseABoundedNumberOfCallsOfAFullWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			<-end
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		x.enqueue("t", 0, 0)
		pass(time.Second)
		before := x.count("Mine")
		for i := range 1000 {
			x.heard(me, int64(1000+i))
			pass(time.Millisecond)
		}
		if n := x.count("Mine") - before; n > 300 {
			t.Errorf("%d calls for 1,000 notifications in a second", n)
		}
		close(end)
		x.finish(t)
	})
}
