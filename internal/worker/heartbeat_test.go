package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/queue"
)

// patient is a handler of a minute that says how its context ended.
type patient struct{ cause atomic.Pointer[error] }

func (p *patient) Handle(ctx context.Context, _ queue.Job) queue.Outcome {
	if sleep(ctx, time.Minute) {
		return queue.Outcome{}
	}
	cause := context.Cause(ctx)
	p.cause.Store(&cause)
	return queue.Outcome{Kind: queue.Failed, Err: cause}
}

// ended is nil while it goes on, or when it has ended well.
func (p *patient) ended() error {
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

func TestLeasesAreExtendedByOneStatementAQuarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p patient
		x := begin(t, handle(p.Handle), func(c *Config, _ *fakeStore) { c.Slots = 20 })
		for range 20 {
			x.enqueue("t", 0, 0)
			time.Sleep(100 * time.Millisecond)
		}
		pass(70 * time.Second)
		if n := x.w.Stats().Concluded[Conclusion{"t", "completed"}]; n != 20 || p.ended() != nil {
			t.Errorf("%d of 20 completed; cause %v", n, p.ended())
		}
		if n := x.count("Extend"); n > 62/2+2 {
			t.Errorf("%d heartbeats in 62 s of leases of 8 s", n)
		}
		beats := x.count("Extend")
		pass(time.Minute)
		if x.count("Extend") != beats {
			t.Error("heartbeats without anything held")
		}
		x.finish(t)
	})
}

func TestALostReservationStopsItsHandlerAndWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p patient
		x := begin(t, handle(p.Handle), nil)
		id := x.enqueue("t", 0, 0)
		pass(time.Second)
		x.steal(id)
		pass(3 * time.Second)
		if !errors.Is(p.ended(), queue.ErrLost) {
			t.Errorf("the handler's context ended by %v, want %v", p.ended(), queue.ErrLost)
		}
		if n := x.w.Stats().Concluded[Conclusion{"t", "lost"}]; n != 1 {
			t.Errorf("counted: %v", x.w.Stats().Concluded)
		}
		if x.count("Requeue")+x.count("Complete") != 0 {
			t.Error("something was written")
		}
		x.mu.Lock()
		clear(x.ends)
		x.mu.Unlock()
		x.finish(t)
	})
}

func TestALossFoundByTheLastStatementIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x *world
		x = begin(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			x.steal(j.ID)
			if j.ID%2 == 0 {
				return queue.Outcome{Kind: queue.Failed}
			}
			return queue.Outcome{}
		}), nil)
		for range 10 {
			x.enqueue("t", 0, 0)
		}
		pass(time.Second)
		if n := x.w.Stats().Concluded[Conclusion{"t", "lost"}]; n != 10 {
			t.Errorf("counted: %v", x.w.Stats().Concluded)
		}
		x.mu.Lock()
		clear(x.ends)
		x.mu.Unlock()
		x.finish(t)
	})
}

// Nobody else can take a job whose row somebody holds. When that ends, another worker may be faster than the next extension; then
// the handler must not go on for long.
func TestWhoseRowIsLetGoIsAskedForSoon(t *testing.T) {
	for after := 20 * time.Second; after < 22*time.Second; after += 500 * time.Millisecond { // whenever the next beat is due
		synctest.Test(t, func(t *testing.T) {
			var p patient
			x := begin(t, handle(p.Handle), nil)
			id := x.enqueue("t", 0, 0)
			lock := func(held bool) {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.locked[id] = held
			}
			pass(time.Second)
			lock(true)
			pass(after)
			if p.ended() != nil {
				t.Errorf("told to stop by %v while nobody can have its job", p.ended())
			}
			x.steal(id)
			x.mu.Lock()
			x.rows[id].leaseAt = time.Now().Add(x.lease)
			x.mu.Unlock()
			lock(false)
			pass(600 * time.Millisecond)
			if p.ended() == nil {
				t.Error("somebody else has its job, and it goes on")
			}
			x.mu.Lock()
			clear(x.ends)
			x.mu.Unlock()
			x.finish(t)
		})
	}
}

func TestHandlersStopWhenTheLeaseMustBeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p patient
		x := begin(t, handle(p.Handle), nil)
		id := x.enqueue("t", 0, 0)
		pass(3 * time.Second)
		x.setFail(func(string) error { return errGone })
		pass(5500 * time.Millisecond)
		if p.ended() != nil {
			t.Errorf("stopped before its time: %v", p.ended())
		}
		pass(3 * time.Second)
		if !errors.Is(p.ended(), queue.ErrLost) {
			t.Errorf("the handler's context ended by %v, want %v", p.ended(), queue.ErrLost)
		}
		x.setFail(nil)
		pass(time.Second)
		if row := x.row(id); row.status == "completed" || len(row.causes) > 0 {
			t.Errorf("job is %s, returned by %v: nothing may be written", row.status, row.causes)
		}
		x.mu.Lock()
		clear(x.ends)
		x.mu.Unlock()
		x.finish(t)
	})
}

func TestAnOutcomeWaitsForTheDatabaseAsLongAsItMayCount(t *testing.T) {
	for _, c := range []struct {
		outage time.Duration
		want   string
	}{{6 * time.Second, "completed"}, {time.Minute, "unwritten"}} {
		t.Run(c.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
					f.fail = func(method string) error {
						if method == "Complete" || method == "Extend" {
							return errGone
						}
						return nil
					}
				})
				x.enqueue("t", 0, 0)
				pass(c.outage)
				x.setFail(nil)
				pass(3 * time.Second)
				s := x.w.Stats()
				if s.Concluded[Conclusion{"t", c.want}] == 0 || s.Unwritten != 0 {
					t.Errorf("counted: %v, %d unwritten", s.Concluded, s.Unwritten)
				}
				pass(time.Minute)
				x.mu.Lock()
				clear(x.ends)
				x.mu.Unlock()
				x.finish(t)
			})
		})
	}
}

func TestProgressIsWrittenWhileTheTokenHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		var x *world
		x = begin(t, handle(func(ctx context.Context, j queue.Job) queue.Outcome {
			report := queue.ProgressFrom(ctx)
			errs = append(errs, report(ctx, json.RawMessage(`{"done":1}`)), report(ctx, json.RawMessage(`[]`)))
			x.steal(j.ID)
			errs = append(errs, report(ctx, json.RawMessage(`{"done":2}`)), report(ctx, json.RawMessage(`{"done":3}`)), context.Cause(ctx))
			return queue.Outcome{}
		}), nil)
		id := x.enqueue("t", 0, 0)
		pass(time.Second)
		if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "not a JSON object") {
			t.Errorf("progress: %v, then %v", errs[0], errs[1])
		}
		for _, err := range errs[2:] {
			if !errors.Is(err, queue.ErrLost) {
				t.Errorf("after the loss: %v", err)
			}
		}
		if row := x.row(id); string(row.result) != `{"done":1}` {
			t.Errorf("result %s", row.result)
		}
		if n := x.count("Progress"); n != 2 {
			t.Errorf("%d statements, want 2", n)
		}
		x.mu.Lock()
		clear(x.ends)
		x.mu.Unlock()
		x.finish(t)
	})
}

func TestADeadWorkersJobIsRescuedWhenItsLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swept := 0
		x := begin(t, handle(ok), func(c *Config, f *fakeStore) {
			c.Maintain = []func(context.Context){func(context.Context) { swept++ }}
			id := f.enqueue("t", 0, 0)
			f.rows[id].status, f.rows[id].Token, f.rows[id].leaseAt = "running", "a dead worker's", time.Now().Add(5*time.Second)
		})
		pass(5*time.Second + rescueSpread + 100*time.Millisecond)
		if row := x.row(1); row.status != "completed" {
			t.Errorf("half a second after the lease the job is %s", row.status)
		}
		if n := x.w.Stats().LeaseEnds; n != 1 {
			t.Errorf("%d ends of leases", n)
		}
		if n := x.w.Stats().Rescued; n != 1 || swept != 1 {
			t.Errorf("%d rescued, maintenance called %d times", n, swept)
		}
		calls := x.count("Rescue")
		pass(10 * time.Minute)
		if n := x.count("Rescue") - calls; n < 19 || n > 24 {
			t.Errorf("%d looks for dead workers' jobs in ten minutes", n)
		}
		if n := x.count("Sweep"); n < 19 || n > 24 {
			t.Errorf("%d sweeps in ten minutes", n)
		}
		x.finish(t)
	})
}

func TestAllThatCanBeRescuedIsRescuedAtOnceBesideJobsThatCantBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
			f.stuck = errors.New("rescue: one row says no")
			for range 2*rescueLimit + 50 {
				id := f.enqueue("t", 0, 0)
				f.rows[id].status, f.rows[id].Token, f.rows[id].leaseAt = "running", "a dead worker's", time.Now().Add(time.Second)
			}
		})
		pass(time.Second + rescueSpread + 100*time.Millisecond)
		if n := x.w.Stats().Rescued; n != 2*rescueLimit+50 {
			t.Errorf("%d were rescued, of %d", n, 2*rescueLimit+50)
		}
		if n := x.count("Rescue"); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
		x.finish(t)
	})
}

func TestALeaseThatStaysOverdueIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
			id := f.enqueue("t", 0, 0)
			f.rows[id].status, f.rows[id].Token, f.rows[id].leaseAt = "running", "a dead worker's", time.Now().Add(-time.Hour)
			f.fail = func(method string) error {
				if method == "Rescue" {
					return errors.New("rescue: one row says no")
				}
				return nil
			}
		})
		pass(time.Minute)
		if n := x.count("Rescue"); n > 125 {
			t.Errorf("%d tries in a minute", n)
		}
		x.setFail(nil)
		pass(time.Second)
		if row := x.row(1); row.status != "completed" {
			t.Errorf("job is %s", row.status)
		}
		x.finish(t)
	})
}
