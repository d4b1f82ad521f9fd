package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/queue"
)

// staggered takes as long as so many jobs' places among eight.
func staggered(step time.Duration) func(context.Context, queue.Job) queue.Outcome {
	return func(_ context.Context, j queue.Job) queue.Outcome {
		time.Sleep(time.Duration(j.ID%8) * step)
		return queue.Outcome{}
	}
}

// While more jobs wait than there are slots, brief jobs are reserved and concluded as many at a time as there are slots.
func TestBriefJobsOfAFullQueueAreGathered(t *testing.T) {
	const jobs = 160
	for _, k := range []struct {
		name          string
		step          time.Duration
		slots         int
		looks, writes int // at most, where they are gathered
		gathered      bool
	}{
		{"brief", 50 * time.Microsecond, 8, jobs/8 + 2, jobs/8 + 2, true},
		{"longer", 2 * time.Millisecond, 8, 0, 0, false},
		{"brief, by polling", 50 * time.Microsecond, 8, 0, 0, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(staggered(k.step)), func(c *Config, f *fakeStore) {
					c.Slots, c.Polling, f.takes = k.slots, strings.Contains(k.name, "polling"), 100*time.Microsecond
					for range jobs {
						f.enqueue("t", 0, 0)
					}
				})
				pass(time.Second)
				st := x.w.Stats()
				looks, writes := int(st.Looks-st.EmptyLooks), x.writes()
				if k.gathered && (looks > k.looks || writes > k.writes) {
					t.Errorf("%d jobs took %d looks and %d conclusions", jobs, looks, writes)
				}
				if !k.gathered && writes < 2*jobs/k.slots {
					t.Errorf("%d jobs took %d conclusions: somebody has waited", jobs, writes)
				}
				x.finish(t)
			})
		})
	}
}

// Where a part of the slots is worth a statement, nothing is gathered, however few a look asks for.
func TestManySlotsAreNotGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gathered := 0
		var x *world
		x = begin(t, handle(func(context.Context, queue.Job) queue.Outcome {
			if until := x.w.gathering.others(); !until.IsZero() {
				gathered++
			}
			return queue.Outcome{}
		}), func(c *Config, f *fakeStore) { c.Slots, f.takes = gatherUpTo+1, 100*time.Microsecond })
		for range 10 * gatherUpTo {
			x.enqueue("t", 0, 0)
		}
		pass(time.Second)
		if gathered > 0 {
			t.Errorf("%d outcomes were", gathered)
		}
		x.finish(t)
	})
}

// What is gathered is written in time also while something else waits for longer, as a row that somebody has locked does.
func TestWhatIsGatheredIsWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		wrote := map[int64]time.Time{}
		go func() {
			defer close(ended)
			l.drive(ctx, maxBatch, func(batch []*conclusion) {
				for _, x := range batch {
					wrote[x.job.ID] = time.Now()
				}
			})
		}()
		one := func(id int64, at time.Time) *conclusion {
			return &conclusion{hold: &hold{job: queue.Job{ID: id}}, at: at}
		}
		locked := one(1, time.Now().Add(time.Second))
		locked.tries = 1
		l.put(locked)
		pass(gatherFor)
		for id := int64(2); id < 5; id++ {
			began := time.Now()
			l.put(one(id, began.Add(gatherFor)))
			pass(gatherFor + time.Microsecond)
			if took := wrote[id].Sub(began); took < 0 || took > gatherFor {
				t.Errorf("number %d was written after %v", id, took)
			}
		}
		began := time.Now()
		l.put(one(5, began.Add(gatherFor)))
		l.flush()
		pass(gatherFor / 2)
		if !wrote[5].Equal(began) {
			t.Errorf("what was flushed was written after %v", wrote[5].Sub(began))
		}
		if !wrote[1].IsZero() {
			t.Error("what had met a locked row was written before its time")
		}
		stop()
		<-ended
	})
}

// One that takes long among brief ones holds nobody up for longer than a moment, neither a free slot nor an outcome.
func TestALongJobAmongBriefOnesHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			if j.ID == 1 {
				time.Sleep(10 * time.Second)
			}
			return queue.Outcome{}
		}), func(c *Config, f *fakeStore) {
			c.Slots, f.takes = 8, 100*time.Microsecond
			for range 80 {
				f.enqueue("t", 0, 0)
			}
		})
		pass(80 / 7 * 2 * gatherFor)
		for id := int64(2); id <= 80; id++ {
			if row := x.row(id); row.status != "completed" {
				t.Fatalf("job %d is %s", id, row.status)
			}
		}
		pass(10 * time.Second)
		x.finish(t)
	})
}

// writes is how many statements have completed jobs.
func (x *world) writes() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.batches)
}
