package worker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
)

// told returns how many beats there were, and how many of them told the others something.
func (x *world) told() (beats, notices int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.beats), x.notices
}

func TestNewsBringsABeatForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := beginSeated(t, 100, ok)
		beats, notices := x.told()
		x.w.Moved()
		pass(beatSpread + 10*time.Millisecond)
		if n, told := x.told(); n != beats+1 || told != notices {
			t.Errorf("%d beats for one piece of news, %d of which tell others", n-beats, told-notices)
		}
		x.finish(t)
	})
}

// Whoever sends it, and however often: each of those who listen asks a few times a second.
func TestAFloodOfNewsIsAFewBeats(t *testing.T) {
	for _, c := range []struct{ listening, most int }{{0, 41}, {4, 41}, {8, 21}, {100, 3}} {
		synctest.Test(t, func(t *testing.T) {
			x, _ := beginSeated(t, 100, ok)
			for i := range c.listening {
				x.wanting(fmt.Sprint(i))
			}
			x.w.Moved()
			time.Sleep(defaultBeat)
			beats, _ := x.told()
			for range 10_000 {
				x.w.Moved()
				time.Sleep(time.Millisecond)
			}
			if n, _ := x.told(); n-beats > c.most || n-beats < c.most/2 {
				t.Errorf("%d beats in 10 s with %d who listen, want at most %d", n-beats, c.listening, c.most)
			}
			x.finish(t)
		})
	}
}

// TestTheOthersAreTold has a worker of a large fleet lose its seat, and get it again.
func TestTheOthersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, seat := beginSeated(t, 100, ok)
		_, before := x.told()
		if before == 0 {
			t.Error("nobody was told when it began")
		}
		for i, h := range []listen.Hearing{listen.Reserve, listen.Listening} {
			seat.turn(h)
			x.bell.Ring(listen.Nudged) // as a listener does
			pass(time.Second)
			if _, told := x.told(); told != before+i+1 {
				t.Errorf("%v: the others were told %d times", h, told-before)
			}
		}
		time.Sleep(time.Minute)
		if _, told := x.told(); told != before+2 {
			t.Errorf("idle, it tells the others %d times more", told-before-2)
		}
		x.finish(t)
	})
}

func TestWhatCouldNotBeToldIsToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, seat := beginSeated(t, 100, ok)
		_, before := x.told()
		x.setFail(func(method string) error {
			if method == "Beat" {
				return errGone
			}
			return nil
		})
		seat.turn(listen.Reserve)
		x.bell.Ring(listen.Nudged)
		pass(time.Second)
		if _, told := x.told(); told != before {
			t.Error("a beat that failed has told them")
		}
		x.setFail(nil)
		pass(2 * time.Second)
		if _, told := x.told(); told == before {
			t.Error("they were never told")
		}
		x.finish(t)
	})
}

// In a small fleet all listen, and take their wishes back often. When it grows, the others are told what they were not told.
func TestASmallFleetIsToldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, seat := beginSeated(t, listen.Everybody, ok)
		if _, told := x.told(); told != 0 {
			t.Errorf("others were told %d times", told)
		}
		x.setAlive(listen.Everybody + 1)
		time.Sleep(2 * defaultBeat)
		if _, told := x.told(); told != 1 {
			t.Errorf("of one more, others were told %d times", told)
		}
		x.setAlive(listen.Everybody) // its processes are replaced, one by one
		time.Sleep(2 * defaultBeat)
		if !x.w.place.crowded() {
			t.Error("one went, and it is a small fleet")
		}
		x.setAlive(listen.Everybody - 1)
		time.Sleep(2 * defaultBeat)
		if x.w.place.crowded() {
			t.Error("two went, and it is a large fleet")
		}
		seat.turn(listen.Reserve)
		x.finish(t)
	})
}

// Whoever was thought dead, and taken off the list, knows of the others as soon as it is on it again.
func TestWhoRegistersAgainKnowsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := beginSeated(t, 100, ok)
		x.mu.Lock()
		x.registered = false
		x.mu.Unlock()
		x.w.Moved()
		pass(beatSpread + 10*time.Millisecond)
		if n := x.w.place.alive.Load(); n != 100 {
			t.Errorf("it knows of %d workers, want 100", n)
		}
		x.finish(t)
	})
}
