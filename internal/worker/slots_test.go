package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/queue"
)

// reserveOne takes a job of a lease of 8 s as if it had been reserved this moment.
func reserveOne(s *slots, id int64, token string) (*hold, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	now := time.Now()
	return s.take(queue.Job{ID: id, Token: token, StartedAt: now, LeaseUntil: now.Add(8 * time.Second)}, queue.TypeSettings{}, now, true, cancel), ctx
}

func TestOnlyTheFirstOutcomeCounts(t *testing.T) {
	s := newSlots(1)
	h, _ := reserveOne(s, 1, "a")
	if first, alive, _ := s.hand(h); !first || !alive {
		t.Fatalf("the first outcome: first %v, alive %v", first, alive)
	}
	if first, _, _ := s.hand(h); first {
		t.Error("a second outcome was accepted before the first was written")
	}
	s.lose(h)
	if s.isLost(h) {
		t.Error("lost after it was handed over: the statement under way finds out")
	}
	if running, pending := s.counts(); running != 1 || pending != 1 || s.free() != 0 {
		t.Errorf("%d running, %d pending, %d free", running, pending, s.free())
	}
	s.leave(h)
	if s.free() != 1 {
		t.Error("no slot is free while an outcome is written")
	}
	s.settle(h)
	if first, _, _ := s.hand(h); first {
		t.Error("a second outcome was accepted after the first was written")
	}
	if len(s.held) != 0 {
		t.Error("still held")
	}
}

func TestWhatAwaitsItsWritingIsBounded(t *testing.T) {
	s := newSlots(4)
	for id := range int64(8) {
		if s.free() == 0 {
			t.Fatalf("no slot for job %d", id)
		}
		h, _ := reserveOne(s, id, "a")
		s.hand(h)
		s.leave(h)
	}
	if n := s.free(); n != 0 {
		t.Errorf("%d free with 8 outcomes unwritten, for 4 slots", n)
	}
}

func TestTheSameJobReservedAgainMeansTheFirstIsLost(t *testing.T) {
	s := newSlots(2)
	old, ctx := reserveOne(s, 1, "a")
	young, _ := reserveOne(s, 1, "b")
	if !errors.Is(context.Cause(ctx), queue.ErrLost) {
		t.Errorf("the first handler goes on: %v", context.Cause(ctx))
	}
	if first, alive, _ := s.hand(old); !first || alive {
		t.Errorf("outcome of the first: first %v, alive %v", first, alive)
	}
	s.extend([]*hold{old}, []int64{1}, nil, time.Now()) // an answer for the first is none for the second
	if s.isLost(young) || s.held[1] != young {
		t.Error("the second is lost too")
	}
}

func TestAThawedProcessWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		h, ctx := reserveOne(s, 1, "a")
		time.Sleep(8 * time.Second) // no heartbeat ran
		if first, alive, _ := s.hand(h); !first || alive {
			t.Errorf("first %v, alive %v: want an outcome that is dropped", first, alive)
		}
		if !errors.Is(context.Cause(ctx), queue.ErrLost) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
	})
}

func TestTwoReservationsOfOneJobAreNotWrittenTogether(t *testing.T) {
	l := newLane()
	h := func(id int64) *conclusion { return &conclusion{hold: &hold{job: queue.Job{ID: id}}} }
	for _, id := range []int64{1, 2, 1, 3} {
		l.put(h(id))
	}
	batch, _ := l.take(10)
	if len(batch) != 3 {
		t.Errorf("%d in the first batch, want 3", len(batch))
	}
	if batch, _ = l.take(10); len(batch) != 1 || batch[0].job.ID != 1 {
		t.Errorf("second batch: %v", batch)
	}
	if batch, wait := l.take(10); len(batch) != 0 || wait >= 0 {
		t.Errorf("an empty lane gives %v, %v", batch, wait)
	}
}

func TestALaneWaitsForTheTimeOfATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane()
		l.put(&conclusion{hold: &hold{}, at: time.Now().Add(time.Second)})
		ctx, cancel := context.WithCancel(context.Background())
		began := time.Now()
		l.drive(ctx, 1, func([]*conclusion) { cancel() })
		if took := time.Since(began); took != time.Second {
			t.Errorf("taken after %v, want 1s", took)
		}
	})
}
