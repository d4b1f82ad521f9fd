package listen

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func rang(b *Doorbell) bool {
	select {
	case <-b.C():
		return true
	default:
		return false
	}
}

func TestDoorbellMakesOneRingOfMany(t *testing.T) {
	b := NewDoorbell()
	defer b.Close()
	if rang(b) || b.Take() != 0 {
		t.Fatal("a new bell has rung")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				b.Ring(Notified)
			}
		})
	}
	wg.Wait()
	b.Ring(Poll)
	if got := b.Take(); !got.Has(Notified) || !got.Has(Poll) || got.Has(Due) {
		t.Errorf("causes: got %v, want notified+poll", got)
	}
	if rang(b) {
		t.Error("still rings after Take")
	}
	b.Ring(Poll)
	if !rang(b) {
		t.Error("silent after a new ring")
	}
	if got := b.Take(); !got.Only(Poll) {
		t.Errorf("causes survive the reading of C: got %v, want poll", got)
	}
	if got := b.Rings(); got[Notified] != 8000 || got[Poll] != 2 {
		t.Errorf("rings: got %v", got)
	}
}

func TestDoorbellKeepsTheEarliestDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewDoorbell()
		start := time.Now()
		for _, d := range []time.Duration{time.Hour, time.Minute, time.Second, 24 * time.Hour, 2 * time.Second} {
			b.RingIn(d)
		}
		<-b.C()
		if got := time.Since(start); got != time.Second {
			t.Errorf("rang after %v, want 1s", got)
		}
		if got := b.Take(); !got.Only(Due) {
			t.Errorf("cause: got %v, want due", got)
		}
		if !b.NextDue().IsZero() {
			t.Errorf("another due time is kept: %v", b.NextDue())
		}
		b.RingIn(time.Minute)
		b.RingIn(-time.Second)
		if !rang(b) {
			t.Error("what is due already did not ring at once")
		}
		if b.NextDue().IsZero() {
			t.Error("what was due at once took the place of a later due time")
		}
		b.Take()
		b.Close()
		time.Sleep(time.Hour)
		b.Ring(Poll)
		if rang(b) {
			t.Error("rang after Close")
		}
	})
}

func TestCausesNameThemselves(t *testing.T) {
	var s Causes
	for c := range causes {
		s |= 1 << c
	}
	if s.OnlyOf(Notified, Many) || Causes(0).OnlyOf(Notified) || !Causes(1<<Notified).OnlyOf(Many, Notified) {
		t.Error("OnlyOf")
	}
	if got, want := s.String(), "notified+due+poll+connected+overdue+nudged+unheard+seated+handed+many"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Cause(200).String(); got != "unknown" {
		t.Errorf("got %q", got)
	}
}
