package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// fakeSeat is a listener that has one, or does not.
type fakeSeat struct {
	mu      sync.Mutex
	hearing listen.Hearing
	said    []string
	at      []time.Time
	dropped func() // by Redial; may be nil
}

func (s *fakeSeat) Redial() {
	s.say("redial")
	if s.dropped != nil {
		s.dropped()
	}
}

func (s *fakeSeat) say(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said, s.at = append(s.said, what), append(s.at, time.Now())
}

func (s *fakeSeat) Sit()  { s.say("sit") }
func (s *fakeSeat) Rise() { s.say("rise") }

func (s *fakeSeat) Fleet(bool) {}

func (s *fakeSeat) Hearing() listen.Hearing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hearing
}

func (s *fakeSeat) turn(h listen.Hearing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hearing = h
}

// take returns what was said since the last call, and when it was said last.
func (s *fakeSeat) take() (said []string, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said = s.said
	if len(said) > 0 {
		last = s.at[len(s.at)-1]
	}
	s.said, s.at = nil, nil
	return said, last
}

func (x *world) wish() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wants
}

func (x *world) sent() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.echoes)
}

func beginSeated(t *testing.T, alive int, h func(context.Context, queue.Job) queue.Outcome) (*world, *fakeSeat) {
	seat := &fakeSeat{hearing: listen.Listening}
	x := begin(t, handle(h), func(c *Config, f *fakeStore) {
		c.Slots, c.Seat, f.alive = 1, seat, alive
	})
	time.Sleep(10 * time.Second)                            // two beats
	if said, _ := seat.take(); len(said) > 0 || !x.wish() { // a listener wants a seat from the beginning
		t.Fatalf("idle, it says %v and wishes %v", said, x.wish())
	}
	return x, seat
}

func TestAFullWorkerLeavesItsSeat(t *testing.T) {
	for _, c := range []struct {
		alive int
		fresh bool // its seat has just been had
		after time.Duration
	}{{listen.Everybody + 1, false, fullAfter}, {listen.Everybody, false, busyAfter}, {listen.Everybody + 1, true, 0}, {listen.Everybody, true, busyAfter}} {
		synctest.Test(t, func(t *testing.T) {
			began := make(chan time.Time, 10)
			release := make(chan struct{})
			x, seat := beginSeated(t, c.alive, func(context.Context, queue.Job) queue.Outcome {
				began <- time.Now()
				<-release
				return queue.Outcome{}
			})
			if c.fresh {
				x.bell.Ring(listen.Connected) // its look takes a moment, and so sees the job
			}
			x.enqueue("t", 0, 0)
			time.Sleep(time.Second)
			said, at := seat.take()
			if took := at.Sub(<-began); !slices.Equal(said, []string{"rise"}) || took < c.after || took > c.after+5*time.Millisecond {
				t.Errorf("%+v: it says %v after %v", c, said, took)
			}
			if x.wish() {
				t.Errorf("%+v: full, it wants to be told", c)
			}
			id := x.enqueue("t", 0, 0) // nobody tells it
			close(release)
			time.Sleep(time.Second)
			if row := x.row(id); row.status != "completed" {
				t.Errorf("%+v: what came meanwhile is %s", c, row.status)
			}
			if said, _ := seat.take(); len(said) == 0 || said[len(said)-1] != "sit" || !x.wish() {
				t.Errorf("%+v: idle again, it says %v and wishes %v", c, said, x.wish())
			}
			x.finish(t)
			if said, _ := seat.take(); !slices.Equal(said, []string{"rise"}) {
				t.Errorf("%+v: at its end it says %v", c, said)
			}
		})
	}
}

func TestAWorkerThatIsFullForAMomentKeepsItsSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, seat := beginSeated(t, 100, func(context.Context, queue.Job) queue.Outcome {
			time.Sleep(fullAfter / 2)
			return queue.Outcome{}
		})
		for range 100 {
			x.enqueue("t", 0, 0)
			time.Sleep(20 * time.Millisecond)
		}
		if said, _ := seat.take(); len(said) != 0 {
			t.Errorf("it says %v", said)
		}
		x.finish(t)
	})
}

func TestInReserveAWorkerWishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, seat := beginSeated(t, 100, ok)
		seat.turn(listen.Reserve)
		x.bell.Ring(listen.Nudged) // as a listener does
		time.Sleep(time.Second)
		if x.wish() {
			t.Error("it wants to be told")
		}
		id := x.enqueue("t", 0, 0)
		looks, echoes := x.count("Reserve"), len(x.sent())
		time.Sleep(8 * time.Second)
		if n := x.count("Reserve"); n != looks {
			t.Errorf("%d looks unasked", n-looks)
		}
		for _, e := range x.sent()[echoes:] {
			if e[0] != ':' {
				t.Errorf("an echo is sent: %s", e)
			}
		}
		seat.turn(listen.Listening)
		x.bell.Ring(listen.Connected)
		time.Sleep(time.Second)
		if row := x.row(id); row.status != "completed" || !x.wish() {
			t.Errorf("with the seat it does not look: the job is %s; or does not wish: %v", row.status, x.wish())
		}
		x.finish(t)
	})
}

// The table may hold a wish that the worker does not remember.
func TestInReserveAForgottenWishIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, seat := beginSeated(t, 100, ok)
		x.setFail(func(method string) error {
			if method == "Beat" {
				return errGone
			}
			return nil
		})
		time.Sleep(time.Minute)
		x.setFail(nil)
		seat.turn(listen.Reserve)
		time.Sleep(10 * time.Second)
		if x.wish() {
			t.Error("it wants to be told")
		}
		x.finish(t)
	})
}
