package worker

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
)

func TestNewSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{Slots: -1, BeatEvery: -1, Handlers: map[string]queue.Handler{"x": nil}, Types: map[string]queue.TypeSettings{"y": {Lease: 1}}})
	for _, want := range []string{"store is missing", "bell is missing", "slots is -1", "beat interval is -1ns", `type "x"`, `type "y": lease is 1ns`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q in it", err, want)
		}
	}
}

func TestReservesForFreeSlotsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(100 * time.Millisecond)
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 3 })
		for range 30 {
			x.enqueue("t", 0, 0)
		}
		// 10 rounds of 100 ms and some statements; a freed slot that waited for a ring would wait for ever.
		time.Sleep(1100 * time.Millisecond)
		if n := x.w.Stats().Concluded[Conclusion{"t", "completed"}]; n != 30 {
			t.Errorf("%d of 30 completed after 1.1 s", n)
		}
		if s := x.w.Stats(); s.Freed < 9 || s.Phase != Working {
			t.Errorf("%d looks for a freed slot, phase %s", s.Freed, s.Phase)
		}
		if most.Load() != 3 {
			t.Errorf("%d ran at once, want 3", most.Load())
		}
		x.finish(t)
	})
}

func TestALoopThatSleepsShowsThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		for range 20 {
			pass(7 * time.Second)
			if s := x.w.Stats(); time.Since(s.Turned) > idleTurn || s.Phase != Working {
				t.Fatalf("the loop last turned %v ago, phase %s", time.Since(s.Turned), s.Phase)
			}
		}
		if looks := x.count("Reserve"); looks > 10 {
			t.Errorf("%d looks at the table in 140 s without work", looks)
		}
		x.finish(t)
		if p := x.w.Stats().Phase; p != Draining {
			t.Errorf("phase %s after the end", p)
		}
	})
}

func TestStatsTellSinceWhenReservationsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		pass(time.Second)
		began := time.Now()
		x.setFail(func(string) error { return io.ErrUnexpectedEOF })
		x.bell.Ring(listen.Notified)
		pass(30 * time.Second)
		for _, tr := range []Trouble{x.w.Stats().Trouble, x.w.Stats().BeatTrouble} {
			if !errors.Is(tr.Err, io.ErrUnexpectedEOF) || tr.Since.Sub(began) > 5*time.Second {
				t.Errorf("got %v since %v after it began", tr.Err, tr.Since.Sub(began))
			}
		}
		x.setFail(nil)
		pass(10 * time.Second)
		if s := x.w.Stats(); s.Trouble.Err != nil || s.BeatTrouble.Err != nil {
			t.Errorf("after the end: %v, %v", s.Trouble, s.BeatTrouble)
		}
		x.finish(t)
	})
}

func TestARingWhileFullIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			if j.ID == 1 {
				time.Sleep(20 * time.Millisecond) // too short for the wish to be taken back
			}
			return queue.Outcome{}
		}), func(c *Config, _ *fakeStore) { c.Slots = 1 })
		time.Sleep(time.Second)
		x.enqueue("t", 0, 0)
		time.Sleep(10 * time.Millisecond)
		id := x.enqueue("t", 0, 0)
		time.Sleep(20 * time.Millisecond)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("the job that came while the slot was taken is %s", row.status)
		}
		x.finish(t)
	})
}

func TestADueTimeIsMetWithoutARing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
			f.enqueue("t", 3*time.Second, 0) // before the worker: nobody rings for it
		})
		time.Sleep(5 * time.Second)
		if row := x.row(1); row.status != "completed" || waited(row.Job) > 20*time.Millisecond {
			t.Errorf("job is %s, waited %v beyond its time", row.status, waited(row.Job))
		}
		x.finish(t)
	})
}

func TestALockedJobDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(_ *Config, f *fakeStore) {
			f.locked[f.enqueue("t", 0, 0)] = true
		})
		time.Sleep(time.Minute)
		if n := x.count("Reserve"); n > 100 {
			t.Errorf("%d looks in a minute for a job that can't be had", n)
		}
		for range 50 {
			id := x.enqueue("t", 0, 0)
			time.Sleep(700 * time.Millisecond)
			if row := x.row(id); row.status != "completed" || waited(row.Job) > 20*time.Millisecond {
				t.Errorf("job is %s, waited %v", row.status, waited(row.Job))
			}
		}
		x.mu.Lock()
		delete(x.locked, 1)
		x.mu.Unlock()
		time.Sleep(blockedCap + 100*time.Millisecond)
		if row := x.row(1); row.status != "completed" {
			t.Errorf("the job whose lock is gone is %s", row.status)
		}
		x.finish(t)
	})
}

func TestAnOutageIsRiddenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		x := begin(t, handle(ok), func(c *Config, f *fakeStore) {
			c.Log = zerolog.New(log)
			f.fail = func(string) error { return errGone }
		})
		x.enqueue("t", 0, 0)
		time.Sleep(10 * time.Minute)
		if n := x.count("Register"); n > 650 {
			t.Errorf("%d tries to register in ten minutes", n)
		}
		x.setFail(nil)
		time.Sleep(troubleCap + time.Second)
		if row := x.row(1); row.status != "completed" {
			t.Errorf("after the outage the job is %s", row.status)
		}
		x.setFail(func(string) error { return errGone })
		id := x.enqueue("t", 0, 0)
		x.bell.Ring(listen.Poll)
		time.Sleep(10 * time.Minute)
		x.setFail(nil)
		time.Sleep(troubleCap + time.Second)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("after the second outage the job is %s", row.status)
		}
		if n := log.count("trying again"); n > 8 {
			t.Errorf("%d lines about two outages:\n%s", n, log)
		}
		x.finish(t)
	})
}

func TestAMissingRightIsSaidClearlyAndRetriedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		x := begin(t, handle(ok), func(c *Config, f *fakeStore) { c.Log = zerolog.New(log) })
		time.Sleep(time.Second)
		before := x.count("Reserve")
		x.setFail(func(method string) error {
			if method == "Reserve" {
				return &pgconn.PgError{Code: "42501", Message: "permission denied for table jobs"}
			}
			return nil
		})
		id := x.enqueue("t", 0, 0)
		time.Sleep(time.Minute)
		if n := x.count("Reserve") - before; n < 5 || n > 30 {
			t.Errorf("%d tries in a minute, want about 12", n)
		}
		if n := log.count("permission denied"); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, log)
		}
		if got := x.w.Stats().Failing; !strings.Contains(got, "permission denied") {
			t.Errorf("Stats says nothing of it: %q", got)
		}
		if log.count("give the worker's role its rights") == 0 {
			t.Errorf("what to do is not said:\n%s", log)
		}
		x.setFail(nil)
		time.Sleep(troubleSlow + time.Second)
		if row := x.row(id); row.status != "completed" {
			t.Errorf("after the repair the job is %s", row.status)
		}
		if got := x.w.Stats().Failing; got != "" {
			t.Errorf("Stats still says %q", got)
		}
		x.finish(t)
	})
}

func TestAWholeLookFollowsABriefOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bell := listen.NewDoorbell()
		f := newFake(bell)
		w, err := New(Config{Store: onlyOne{f}, Bell: bell, Handlers: handle(ok)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx, context.Background()) }()
		time.Sleep(time.Second)
		f.mu.Lock()
		f.wants = false // the second job rings no bell: it is one that a brief look may leave
		f.mu.Unlock()
		first, second := f.enqueue("t", 0, 0), f.enqueue("t", 0, 0)
		bell.Ring(listen.Notified)
		time.Sleep(time.Second)
		cancel()
		<-done
		bell.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		if w := waited(f.rows[first].Job); w > time.Millisecond {
			t.Errorf("the first job waited %v", w)
		}
		if row := f.rows[second]; row.status != "completed" || waited(row.Job) > afterBrief+5*time.Millisecond {
			t.Errorf("the job that the brief look left is %s, waited %v", row.status, waited(row.Job))
		}
	})
}

// onlyOne is a store whose brief looks see one job, and say that it was all.
type onlyOne struct{ *fakeStore }

func (o onlyOne) ReserveBriefly(ctx context.Context, _ int) (queue.Reservation, error) {
	r, err := o.fakeStore.Reserve(ctx, 1)
	if len(r.Jobs) > 0 {
		r.Brief, r.NextDue, r.NextLease = true, 0, -1
	}
	return r, err
}

func TestAPoisonedJobIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		bell := listen.NewDoorbell()
		f := newFake(bell)
		w, err := New(Config{Store: poisoned{f}, Bell: bell, Handlers: handle(ok), Log: zerolog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx, context.Background()) }()
		for range 10 {
			f.enqueue("t", 0, 0)
			time.Sleep(time.Second)
		}
		cancel()
		<-done
		bell.Close()
		if n := log.count("a trigger of the user's"); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, log)
		}
	})
}

type poisoned struct{ *fakeStore }

func (p poisoned) Reserve(ctx context.Context, n int) (queue.Reservation, error) {
	r, err := p.fakeStore.Reserve(ctx, n)
	r.Poisoned = errors.New("a trigger of the user's")
	return r, err
}

func (p poisoned) ReserveBriefly(ctx context.Context, n int) (queue.Reservation, error) {
	return p.Reserve(ctx, n)
}

// lines is a log to look at.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "")
}
