package faults

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// slack is how much longer than its bound a test waits for something before it gives up: so that a busy machine's log tells how
// long it really took. Whether that was too long is up to atMost.
const slack = 4

// patient is how long a test waits for what should come within a bound. Waiting longer costs nothing when it comes.
func patient(within time.Duration) time.Duration { return max(slack*within, time.Minute) }

// crowd is how much slower this machine is than one that keeps up, from 1 to 6: by how many processes a processor had to serve
// in the last minute, by the share of the last ten seconds in which something waited for a processor or a disk, and by that in
// which this process was not woken though it should have been.
func crowd() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return slack // it can't be known
	}
	factor := 1.0
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err == nil {
		factor = max(factor, load/float64(runtime.NumCPU())/1.5)
	}
	for _, of := range []string{"cpu", "io"} {
		var stalled float64 // percent
		if text, err := os.ReadFile("/proc/pressure/" + of); err == nil {
			if _, err := fmt.Sscanf(string(text), "some avg10=%f", &stalled); err == nil && stalled < 100 {
				factor = max(factor, 100/(100-stalled))
			}
		}
	}
	return min(max(factor, ticks.factor()), 6)
}

// atMost fails the test when something took longer than its bound. Bounds are for a machine that keeps up: where more wants to
// run than there are processors, so much more time is allowed, and where all stood still for a while, that while; the log says so.
func atMost(t testing.TB, what string, took, bound time.Duration) {
	t.Helper()
	t.Logf("%s: %v, bound %v", what, took.Round(time.Millisecond), bound)
	if took <= bound {
		return
	}
	busy, still := crowd(), ticks.longest()
	if took <= time.Duration(float64(bound)*busy)+3*still {
		t.Logf("%s: longer than its bound, on a machine that is %.1f times too busy and stood still for %v", what, busy, still.Round(time.Millisecond))
		return
	}
	t.Errorf("%s took %v, the bound is %v, and the machine is %.1f times too busy and stood still for %v at most", what, took.Round(time.Millisecond), bound, busy, still.Round(time.Millisecond))
}

// blame fails the test for what a worker does by right when it is not woken for a second or two, such as to give up its connection or
// to lose a lease: unless this process was not woken either.
func blame(t testing.TB, format string, args ...any) {
	t.Helper()
	if still := ticks.longest(); still > 500*time.Millisecond {
		t.Logf("on a machine that stood still for %v: "+format, append([]any{still.Round(time.Millisecond)}, args...)...)
		return
	}
	t.Errorf(format, args...)
}

// metronome tells how the machine treats this process: it sleeps for a moment again and again, and notes how much too late it was
// woken. The host of a virtual machine may take processors away without any trace in the load or the pressure.
type metronome struct {
	mu   sync.Mutex
	late []lateness // of the last minute, those worth noting
}

type lateness struct {
	at time.Time
	by time.Duration
}

const (
	tick    = 20 * time.Millisecond
	notable = 5 * time.Millisecond
)

// ticks is the metronome of this process; it beats while the tests run.
var ticks metronome

// beat runs until stop is closed.
func (m *metronome) beat(stop <-chan struct{}) {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for last := time.Now(); ; {
		select {
		case <-stop:
			return
		case <-clock.C:
		}
		now := time.Now()
		m.note(now, now.Sub(last)-tick)
		last = now
	}
}

func (m *metronome) note(at time.Time, by time.Duration) {
	if by < notable {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(slices.DeleteFunc(m.late, func(l lateness) bool { return at.Sub(l.at) > time.Minute }), lateness{at, by})
}

// longest is how long this process was not woken at a stretch, in the last minute.
func (m *metronome) longest() (longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.late {
		longest = max(longest, l.by)
	}
	return longest
}

// factor is by how much the last ten seconds were shorter for this process than by the clock.
func (m *metronome) factor() float64 {
	const span = 10 * time.Second
	m.mu.Lock()
	defer m.mu.Unlock()
	var lost time.Duration
	for _, l := range m.late {
		if time.Since(l.at) < span {
			lost += l.by
		}
	}
	return float64(span) / float64(span-min(lost, span*9/10))
}
