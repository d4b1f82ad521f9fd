package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAnAlarmClockKeepsTheEarliestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soonest{poke: make(chan struct{}, 1)}
		poked := func() bool {
			select {
			case <-c.poke:
				return true
			default:
				return false
			}
		}
		for _, k := range []struct{ told, kept time.Duration }{{3 * time.Second, 3 * time.Second}, {time.Second, time.Second}, {2 * time.Second, time.Second}, {time.Second, time.Second}} {
			before := c.wait()
			c.by(time.Now().Add(k.told))
			if got := c.wait(); got != k.kept {
				t.Errorf("told of %s, it waits %s, want %s", k.told, got, k.kept)
			}
			if got := poked(); got != (k.kept < before) {
				t.Errorf("told of %s, the goroutine is woken: %t", k.told, got)
			}
		}
		c.passed()
		c.by(time.Time{})
		if got := c.wait(); got < time.Hour || poked() {
			t.Errorf("it waits %s, though no time is known", got)
		}
	})
}
