package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/queue"
)

func TestASearchForAllEndedLeasesIsMadeNowAndThenOnceItIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e queue.Ended
		want := func(why string, all, due bool) {
			t.Helper()
			if (e.Within() == nil) != all || e.Due() != due {
				t.Errorf("%s: for all %v, and one of all due %v", why, e.Within() == nil, e.Due())
			}
		}
		want("at first", true, false)
		e.Searched(50 * time.Millisecond)
		want("after a quick one", true, false)
		time.Sleep(time.Hour)
		want("after a quick one", true, false)
		e.Searched(200 * time.Millisecond)
		want("after a slow one", false, false)
		time.Sleep(4*time.Second - 1)
		want("before its time", false, false)
		time.Sleep(time.Nanosecond)
		want("at its time", false, true)
		e.Searched(10 * time.Second)
		time.Sleep(time.Minute - 1)
		want("before a minute", false, false)
		time.Sleep(time.Nanosecond)
		want("after a minute", false, true)
		e.Searched(time.Millisecond)
		want("after a quick one again", true, false)
	})
}
