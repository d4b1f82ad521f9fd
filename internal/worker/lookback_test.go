package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
)

// slowTable is one whose looks don't reach all that is due, and tell when those that do are.
func slowTable(between, back time.Duration) func(*Config, *fakeStore) {
	return func(_ *Config, f *fakeStore) { f.between, f.back = between, back }
}

// A worker that sleeps was told of a job, and its look did not see it.
func TestASleepersJobThatOnlyALookInBetweenReachesIsStartedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		time.Sleep(time.Second)
		x.mu.Lock()
		x.between, x.back = 2*time.Second, time.Minute
		x.mu.Unlock()
		x.hide(false)
		id := x.enqueue("t", 0, 0)
		pass(1900 * time.Millisecond)
		if row := x.row(id); row.status != "pending" || x.count("LookBetween") != 0 {
			t.Fatalf("job is %s after %d looks in between: the test has not shown what it should", row.status, x.count("LookBetween"))
		}
		pass(200 * time.Millisecond)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("job is %s after the look in between", row.status)
		}
		x.finish(t)
	})
}

// Each look tells a later time than the one before: the first one counts.
func TestAWorkerThatLooksAllTheTimePutsOffNoLookBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), slowTable(2*time.Second, 30*time.Second))
		began := time.Now()
		for time.Since(began) < time.Minute {
			x.bell.Ring(listen.Nudged)
			pass(5 * time.Millisecond)
		}
		if n := x.count("LookBetween"); n < 29 || n > 30 {
			t.Errorf("%d looks in between in a minute, want one each 2 s", n)
		}
		if n := x.count("LookBack"); n < 1 || n > 2 {
			t.Errorf("%d looks back in a minute, want one each 30 s", n)
		}
		x.finish(t)
	})
}

func TestAJobThatOnlyALookBackReachesIsStartedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), slowTable(2*time.Second, 40*time.Second))
		time.Sleep(time.Second)
		x.hide(true)
		id := x.enqueue("t", 0, 0)
		time.Sleep(35 * time.Second)
		if row := x.row(id); row.status != "pending" || x.count("LookBetween") == 0 || x.count("LookBack") != 0 {
			t.Fatalf("job is %s after %d looks in between and %d back: the test has not shown what it should",
				row.status, x.count("LookBetween"), x.count("LookBack"))
		}
		time.Sleep(6 * time.Second)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("job is %s after the look back", row.status)
		}
		x.finish(t)
	})
}

// A look back that takes its time holds up no job, neither one that looks see nor one that a look in between finds.
func TestALookBackHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
			f.between, f.back, f.backTakes = 50*time.Millisecond, 100*time.Millisecond, 8*time.Second
		})
		time.Sleep(time.Second)
		for n := range 20 {
			if n%2 == 1 {
				x.hide(false)
			}
			id := x.enqueue("t", 0, 0)
			time.Sleep(100 * time.Millisecond)
			if row := x.row(id); row.status != "completed" {
				t.Errorf("job %d is %s a moment later", id, row.status)
			}
		}
		if n := x.count("LookBack"); n != 1 {
			t.Errorf("%d looks back, want the one that takes its time", n)
		}
		x.finish(t)
	})
}

func TestAFailedLookBehindIsMadeAgain(t *testing.T) {
	for _, kind := range []string{"LookBetween", "LookBack"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(ok), slowTable(2*time.Second, 3*time.Second))
				x.setFail(func(method string) error {
					if method == kind {
						return errGone
					}
					return nil
				})
				time.Sleep(10 * time.Second)
				before := x.count(kind)
				if before == 0 {
					t.Fatal("none was made")
				}
				x.setFail(nil)
				x.hide(kind == "LookBack")
				time.Sleep(4 * time.Second)
				if x.count(kind) == before || x.show() {
					t.Error("it was not made again")
				}
				x.finish(t)
			})
		})
	}
}

// The loop's looks don't see it, but the one in between does.
func TestALeaseThatEndedBehindTheLooksIsRescued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), slowTable(time.Second, time.Minute))
		time.Sleep(2 * time.Second)
		before := x.count("Rescue")
		x.mu.Lock()
		x.unseen = true
		x.mu.Unlock()
		x.bell.Ring(listen.Nudged)
		time.Sleep(2 * time.Second)
		if x.count("Rescue") == before {
			t.Error("nobody looked after it")
		}
		x.finish(t)
	})
}

// What the look before did not reach was not missed: whoever rang for it was heard.
func TestWhatTheLookBeforeCouldNotSeeIsNoMissedWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		time.Sleep(time.Second)
		x.hide(true)
		id := x.enqueue("t", 0, 0)
		time.Sleep(2 * time.Second)
		if row := x.row(id); row.status != "pending" {
			t.Fatalf("job is %s: the test has not shown what it should", row.status)
		}
		x.show()
		x.bell.Ring(listen.Poll)
		time.Sleep(time.Second)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("job is %s", row.status)
		}
		if n := x.w.Stats().Missed; n != 0 {
			t.Errorf("%d missed wake-ups, want none", n)
		}
		x.finish(t)
	})
}
