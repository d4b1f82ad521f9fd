package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/queue"
)

func TestAStopLetsRunningHandlersFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(func(ctx context.Context, _ queue.Job) queue.Outcome {
			if !sleep(ctx, 5*time.Second) {
				return queue.Outcome{Kind: queue.Failed, Err: ctx.Err()}
			}
			return queue.Outcome{}
		}), nil)
		id := x.enqueue("t", 0, 0)
		time.Sleep(time.Second)
		later := make(chan int64, 1)
		go func() {
			time.Sleep(time.Second)
			later <- x.enqueue("t", 0, 0)
		}()
		start := time.Now()
		x.finish(t)
		if took := time.Since(start); took < 4*time.Second || took > 4100*time.Millisecond {
			t.Errorf("the drain took %v, want the 4 s that the handler needed", took)
		}
		if row := x.row(id); row.status != "completed" {
			t.Errorf("the running job is %s", row.status)
		}
		if row := x.row(<-later); row.status != "pending" || row.Attempt != 0 {
			t.Errorf("a job that came during the drain is %s", row.status)
		}
	})
}

func TestAHandlerThatEndsRightAfterTheStopIsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan struct{})
		x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome {
			<-stopped
			time.Sleep(10 * time.Millisecond)
			return queue.Outcome{}
		}), nil)
		id := x.enqueue("t", 0, 0)
		time.Sleep(time.Second)
		close(stopped)
		x.finish(t)
		if row := x.row(id); row.status != "completed" || row.Attempt != 1 {
			t.Errorf("job is %s after %d attempts", row.status, row.Attempt)
		}
	})
}

func TestWhatIsLeftAfterTheDrainTimeGoesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		do   queue.HandlerFunc
		err  string // of Run
	}{
		{"a handler that stops when told to", func(ctx context.Context, _ queue.Job) queue.Outcome {
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Failed, Err: context.Cause(ctx)}
		}, ""},
		{"one that says \"not now\" then", func(ctx context.Context, _ queue.Job) queue.Outcome {
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Refused, Err: context.Cause(ctx)}
		}, ""},
		{"one that does not", func(context.Context, queue.Job) queue.Outcome { time.Sleep(time.Hour); return queue.Outcome{} }, "did not stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(c.do), func(c *Config, _ *fakeStore) { c.DrainTimeout = 3 * time.Second })
				id := x.enqueue("t", 0, 0)
				time.Sleep(time.Second)
				start := time.Now()
				x.stop()
				err := <-x.done
				if took := time.Since(start); took < 3*time.Second || took > 3*time.Second+stopGrace+100*time.Millisecond {
					t.Errorf("Run returned %v after the stop", took)
				}
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("Run: %v, want %q", err, c.err)
				}
				if row := x.row(id); row.status != "pending" || row.Attempt != 0 || row.causes[0] != queue.CauseReleased {
					t.Errorf("job is %s after %d attempts, by %v: want pending, without an attempt lost", row.status, row.Attempt, row.causes)
				}
				time.Sleep(2 * time.Hour) // the stubborn one
				x.kill()
				x.bell.Close()
			})
		})
	}
}

func TestWhatWasReservedAndNotStartedGoesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := 0
		x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome { started++; return queue.Outcome{} }), func(c *Config, f *fakeStore) {
			c.Slots = 50
			f.takes = 100 * time.Millisecond
			for range 50 {
				f.enqueue("t", 0, 0)
			}
		})
		time.Sleep(150 * time.Millisecond) // registered, the reservation is under way
		x.finish(t)
		for id := range int64(50) {
			if row := x.row(id + 1); row.status != "pending" || row.Attempt != 0 {
				t.Fatalf("job %d is %s after %d attempts", id+1, row.status, row.Attempt)
			}
		}
		if started > 0 {
			t.Errorf("%d were started after the stop", started)
		}
	})
}

func TestTheSecondStopEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(func(ctx context.Context, _ queue.Job) queue.Outcome {
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Failed}
		}), nil)
		x.enqueue("t", 0, 0)
		time.Sleep(time.Second)
		x.stop()
		time.Sleep(time.Second)
		start := time.Now()
		x.kill()
		err := <-x.done
		if err == nil || !strings.Contains(err.Error(), "left to their leases") || time.Since(start) > 100*time.Millisecond {
			t.Errorf("Run returned %v after %v", err, time.Since(start))
		}
		x.bell.Close()
	})
}

func TestADrainWithoutADatabaseEndsAllTheSame(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(x *world)
	}{
		{"refuses", func(x *world) { x.setFail(func(string) error { return errGone }) }},
		{"hangs", func(x *world) {
			x.mu.Lock()
			x.hook = func(ctx context.Context, _ string) { <-ctx.Done() }
			x.mu.Unlock()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(func(ctx context.Context, _ queue.Job) queue.Outcome {
					sleep(ctx, 3*time.Second)
					return queue.Outcome{}
				}), func(c *Config, _ *fakeStore) { c.DrainTimeout = 5 * time.Second })
				x.enqueue("t", 0, 0)
				time.Sleep(time.Second)
				c.fail(x)
				start := time.Now()
				x.stop()
				err := <-x.done
				if err == nil || !strings.Contains(err.Error(), "left to their leases") {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(start); took > 5*time.Second+5*time.Second {
					t.Errorf("Run returned %v after the stop", took)
				}
				x.kill()
				x.bell.Close()
			})
		})
	}
}

func TestAStopBeforeTheDatabaseIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, nil, func(_ *Config, f *fakeStore) { f.fail = func(string) error { return errors.New("conn closed") } })
		time.Sleep(time.Minute)
		start := time.Now()
		x.stop()
		if err := <-x.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("Run returned %v after the stop", took)
		}
		x.bell.Close()
	})
}

func TestASecondRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, nil, nil)
		synctest.Wait()
		if err := x.w.Run(context.Background(), context.Background()); err == nil {
			t.Error("a second Run was accepted")
		}
		x.finish(t)
	})
}
