package worker

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"

	"github.com/rs/zerolog"
)

func TestAnErrorOfTakeLosesNothingAndHoldsUpNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.setFail(func(method string) error {
			if method == "Take" {
				return errGone
			}
			return nil
		})
		ids := []int64{x.enqueue("t", 0, 0)}
		pass(20 * time.Millisecond)
		delayed := x.enqueue("t", 100*time.Millisecond, 0)
		pass(110 * time.Millisecond)
		x.wantCompleted(t, delayed)
		for range 10 {
			ids = append(ids, x.enqueue("t", 0, 0))
			for range 50 {
				x.bell.Ring(listen.HandedOver)
				pass(2 * time.Millisecond)
			}
		}
		if n := x.count("Take"); n > 20 {
			t.Errorf("%d tries in a second", n)
		}
		x.setFail(nil)
		pass(3 * time.Second)
		x.wantCompleted(t, ids...)
		x.enqueue("t", 0, 0) // after too many it is handed again from the next look on
		pass(time.Second)
		if !x.isHanded() {
			t.Error("it is handed nothing any more")
		}
		x.finish(t)
	})
}

func TestAfterAnErrorOfTakeTheWorkerSaysAnewThatItTakesJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.mu.Lock()
		x.takes, x.fail = 0, nil
		x.mu.Unlock()
		once := sync.OnceValue(func() error {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.hands = false // its key is no session's any more
			return errGone
		})
		var failed bool
		x.setFail(func(method string) error {
			if method == "Take" && !failed {
				failed = true
				return once()
			}
			return nil
		})
		id := x.enqueue("t", 0, 0)
		pass(time.Second)
		x.wantCompleted(t, id)
		if !x.isHanded() {
			t.Error("it is handed nothing any more")
		}
		x.finish(t)
	})
}

func TestForgedPayloadsCauseABoundedNumberOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		before := map[string]int{}
		for _, m := range []string{"Take", "Mine", "TakeOver", "Reserve", "WantNotify", "Barrier"} {
			before[m] = x.count(m)
		}
		for i := range 100_000 { // in a second
			x.heard(me, int64(1_000_000+i))
			x.heard("forged", int64(1_000_000+i))
			time.Sleep(10 * time.Microsecond)
		}
		for m, most := range map[string]int{"Take": 300, "Mine": 30, "TakeOver": 110, "Reserve": 20, "WantNotify": 20, "Barrier": 20} {
			if n := x.count(m) - before[m]; n > most {
				t.Errorf("%d calls of %s, want at most %d", n, m, most)
			}
		}
		x.w.handovers.mu.Lock()
		if n := len(x.w.handovers.watched); n > mostHanded {
			t.Errorf("it remembers %d jobs", n)
		}
		x.w.handovers.mu.Unlock()
		id := x.enqueue("t", 0, 0)
		pass(time.Second)
		x.wantCompleted(t, id)
		calls := x.count("TakeOver")
		for i := range 1000 {
			x.heard("forged", int64(1_000_000+i))
			pass(time.Millisecond)
		}
		if n := x.count("TakeOver") - calls; n > 110 {
			t.Errorf("%d calls look after 1,000 jobs in a second", n)
		}
		x.finish(t)
	})
}

func TestAJobThatCannotBeTakenForNowIsAskedForEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.mu.Lock()
		x.lease = time.Minute
		x.mu.Unlock()
		x.setMet(true)
		id := x.enqueue("t", 0, 0)
		pass(10 * time.Second)
		if n := x.count("Take"); n > 50 {
			t.Errorf("%d calls in 10 s", n)
		}
		x.setMet(false)
		pass(time.Second)
		x.wantCompleted(t, id)
		x.finish(t)
	})
}

func TestRefusedHandsAreSaidOnceAndTheWorkerGoesOnByLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		x := beginHanded(t, handle(ok), func(c *Config, f *fakeStore) {
			f.noHands = errors.New("a pooler answers in the server's place")
			c.Log = zerolog.New(zerolog.SyncWriter(&said))
		})
		for range 100 {
			id := x.enqueue("t", 0, 0)
			pass(10 * time.Second)
			x.wantCompleted(t, id)
		}
		if n := strings.Count(said.String(), "can't hand jobs to this worker"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if n := x.count("WantNotify"); n < 10 || n > 40 {
			t.Errorf("it asked %d times in 1,000 s, want every 30 s or so", n)
		}
		x.mu.Lock()
		x.noHands = nil
		x.mu.Unlock()
		x.enqueue("t", 0, 0)
		pass(cannotBeHanded)
		x.enqueue("t", 0, 0)
		pass(time.Second)
		if !x.isHanded() {
			t.Error("it is handed nothing though it could be")
		}
		x.finish(t)
	})
}

type ears struct {
	mu    sync.Mutex
	now   listen.Hearing
	risen func()
}

func (e *ears) Sit()       {}
func (e *ears) Fleet(bool) {}
func (e *ears) Redial()    {}
func (e *ears) Rise() {
	if e.risen != nil {
		e.risen()
	}
}
func (e *ears) Hearing() listen.Hearing { e.mu.Lock(); defer e.mu.Unlock(); return e.now }
func (e *ears) turn(to listen.Hearing)  { e.mu.Lock(); defer e.mu.Unlock(); e.now = to }

func TestAWorkerThatHearsNothingIsHandedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ears{now: listen.Listening}
		x := beginHanded(t, handle(ok), func(c *Config, _ *fakeStore) { c.Seat = e })
		if !x.isHanded() {
			t.Fatal("it is handed nothing")
		}
		x.hears(false)
		unheard := x.enqueue("t", 0, 0)
		late := make(chan int64, 1)
		go func() { late <- x.enqueue("t", 0, 50*time.Millisecond) }() // has seen that it takes jobs
		synctest.Wait()
		e.turn(listen.Connecting)
		x.bell.Ring(listen.Nudged)
		pass(100 * time.Millisecond)
		if x.isHanded() {
			t.Error("it is handed jobs that it can't hear of")
		}
		x.wantCompleted(t, unheard, <-late)
		e.turn(listen.Listening)
		x.bell.Ring(listen.Connected)
		pass(100 * time.Millisecond)
		if !x.isHanded() {
			t.Error("it is handed nothing though it listens")
		}
		x.finish(t)
	})
}

func TestAWorkerThatListensAgainAsksForWhatItWasNotToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := beginHanded(t, handle(ok), nil)
		x.hears(false)
		id := x.enqueue("t", 0, 0)
		x.bell.Ring(listen.Connected)
		pass(10 * time.Millisecond)
		x.wantCompleted(t, id)
		x.finish(t)
	})
}
