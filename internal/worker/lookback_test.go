package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
)

// slowTable is one whose looks don't reach all that is due, and tell when a look back is.
func slowTable(back time.Duration) func(*Config, *fakeStore) {
	return func(_ *Config, f *fakeStore) { f.back = back }
}

func TestAJobThatOnlyALookBackReachesIsStartedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), slowTable(40*time.Second))
		time.Sleep(time.Second)
		x.hide()
		id := x.enqueue("t", 0, 0)
		time.Sleep(35 * time.Second)
		if row := x.row(id); row.status != "pending" || x.count("LookBack") != 0 {
			t.Fatalf("job is %s after %d looks back: the test has not shown what it should", row.status, x.count("LookBack"))
		}
		time.Sleep(6 * time.Second)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("job is %s after the look back", row.status)
		}
		x.finish(t)
	})
}

// A look back that takes its time holds up no job.
func TestALookBackHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) { f.back, f.backTakes = 100*time.Millisecond, 8*time.Second })
		time.Sleep(time.Second)
		for range 20 {
			id := x.enqueue("t", 0, 0)
			time.Sleep(100 * time.Millisecond)
			if row := x.row(id); row.status != "completed" {
				t.Errorf("job is %s a moment later", row.status)
			}
		}
		if n := x.count("LookBack"); n != 1 {
			t.Errorf("%d looks back, want the one that takes its time", n)
		}
		x.finish(t)
	})
}

func TestAFailedLookBackIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), slowTable(time.Second))
		x.setFail(func(method string) error {
			if method == "LookBack" {
				return errGone
			}
			return nil
		})
		time.Sleep(10 * time.Second)
		x.hide()
		x.setFail(nil)
		id := x.enqueue("t", 0, 0)
		x.bell.Ring(listen.Notified)
		time.Sleep(3 * time.Second)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("job is %s", row.status)
		}
		x.finish(t)
	})
}

// What the look before did not reach was not missed: whoever rang for it was heard.
func TestWhatTheLookBeforeCouldNotSeeIsNoMissedWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		time.Sleep(time.Second)
		x.hide()
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
