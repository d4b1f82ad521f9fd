package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

func TestWhatIsHandedToAFullWorkerGoesBackAndIsHandedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			time.Sleep(20 * time.Millisecond)
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		first, second := x.enqueue("t", 0, 0), x.enqueue("t", 0, 0)
		pass(10 * time.Millisecond)
		back := x.row(second)
		if back.status == "running" { // it was told of in the other order
			back = x.row(first)
		}
		if back.status != "pending" || back.Attempt != 0 || !slices.Equal(back.causes, []queue.Cause{queue.CauseReleased}) {
			t.Errorf("what there was no slot for is %s after %d attempts, given back as %v", back.status, back.Attempt, back.causes)
		}
		if x.isHanded() {
			t.Error("it is handed more though it has no slot")
		}
		pass(100 * time.Millisecond)
		x.wantCompleted(t, first, second)
		third := x.enqueue("t", 0, 0) // found by a look, after which it may be handed again
		pass(200 * time.Millisecond)
		x.wantCompleted(t, third)
		fourth := x.enqueue("t", 0, 0)
		pass(200 * time.Millisecond)
		x.wantCompleted(t, fourth)
		if !x.isHanded() {
			t.Error("it is handed nothing any more")
		}
		x.finish(t)
	})
}

func TestAStopGivesBackWhatWasHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.hears(false)
		unheard := x.enqueue("t", 0, 0)
		late := make(chan int64, 1)
		go func() { late <- x.enqueue("t", 0, 30*time.Millisecond) }() // under way when the stop comes
		synctest.Wait()
		x.finish(t)
		for _, id := range []int64{unheard, <-late} {
			if row := x.row(id); row.status != "pending" || row.Attempt != 0 {
				t.Errorf("job %d is %s after %d attempts, want it given back", id, row.status, row.Attempt)
			}
		}
		if x.isHanded() {
			t.Error("it is handed jobs after its stop")
		}
	})
}

func TestAStopGivesBackWhatWasHandedToABusyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(func(ctx context.Context, _ queue.Job) queue.Outcome {
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Failed, Err: ctx.Err()}
		}), func(c *Config, _ *fakeStore) { c.Slots, c.DrainTimeout = 1, -1 })
		x.enqueue("t", 0, 0)
		late := make(chan int64, 1)
		go func() { late <- x.enqueue("t", 0, 300*time.Millisecond) }()
		pass(290 * time.Millisecond)
		if x.isHanded() {
			t.Fatal("a worker without a slot is handed jobs for long")
		}
		x.mu.Lock()
		x.hand = func(id int64) { go x.heard(me, id); time.AfterFunc(x.takes/2, x.stop) }
		x.mu.Unlock()
		id := <-late
		x.finish(t)
		if row := x.row(id); row.status != "pending" || row.Attempt != 0 {
			t.Errorf("job %d is %s after %d attempts, want it given back", id, row.status, row.Attempt)
		}
	})
}

func TestAStopDoesNotWaitForADatabaseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.setHook(func(ctx context.Context, _ string) { <-ctx.Done() })
		began := time.Now()
		x.stop()
		<-x.done
		if took := time.Since(began); took > 2500*time.Millisecond { // one call, and the last one
			t.Errorf("it stopped after %v", took)
		}
		x.kill()
		x.bell.Close()
	})
}

// In a large fleet who is full leaves its seat, and hears no more of what it is handed.
func TestAWorkerThatLeavesItsSeatGivesBackWhatItWasHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ears{now: listen.Listening}
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome {
			time.Sleep(20 * time.Second)
			return queue.Outcome{}
		}), func(c *Config, f *fakeStore) {
			c.Slots, c.Seat = 1, e
			f.setAlive(20)
		})
		e.risen = func() { x.hears(false) }
		x.enqueue("t", 0, 0)
		late := make(chan int64, 1)
		go func() { late <- x.enqueue("t", 0, 15*time.Millisecond) }() // has seen that it takes jobs
		pass(100 * time.Millisecond)
		if row := x.row(<-late); row.status != "pending" || row.Attempt != 0 {
			t.Errorf("the job is %s after %d attempts, want it given back", row.status, row.Attempt)
		}
		if x.isHanded() {
			t.Error("it is handed jobs that it does not hear of")
		}
		x.finish(t)
	})
}

func (f *fakeStore) setHook(hook func(context.Context, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func TestAJobOfWhoseLeaseLittleIsLeftGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := false
		x := beginHanded(t, handle(func(context.Context, queue.Job) queue.Outcome { started = true; return queue.Outcome{} }), nil)
		x.hears(false)
		id := x.enqueue("t", 0, 0)
		x.mu.Lock()
		x.rows[id].leaseAt = time.Now().Add(time.Second)
		x.hidden = true // or a look would start it now
		x.mu.Unlock()
		x.heard(me, id)
		pass(100 * time.Millisecond)
		if row := x.row(id); started || row.status != "pending" || row.Attempt != 0 {
			t.Errorf("it is %s after %d attempts, started: %v", row.status, row.Attempt, started)
		}
		x.show()
		x.finish(t)
	})
}
