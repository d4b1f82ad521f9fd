package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	var v []float64
	for i := range 100 {
		v = append(v, float64(i+1))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.95: 95, 0.99: 99, 1: 100} {
		if got := quantile(v, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(nil, 0.5)) || quantile([]float64{7}, 0.99) != 7 {
		t.Error("of nothing, or of one")
	}
}

func TestMediansLeaveOutWhatWasNotMeasured(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		in   []float64
		want float64
	}{{[]float64{3, nan, 1, 2}, 2}, {[]float64{4, 2}, 3}, {[]float64{5}, 5}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.in, got, c.want)
		}
	}
	if !math.IsNaN(median([]float64{nan})) {
		t.Error("a median of nothing")
	}
	// The second round was disturbed, for both.
	if got := medianRatio([]float64{2, 20, 2}, []float64{1, 10, 1}); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if got := medianRatio([]float64{2, 20, 2}, []float64{1, 0, 1}); got != 2 {
		t.Errorf("ratio %v with a round in which nothing was done, want 2", got)
	}
	s := &Section{}
	s.atLeast("by an opponent that did nothing", medianRatio([]float64{2}, []float64{0}), 10, "×")
	s.atLeast("by nothing", math.Inf(1), 10, "×")
	for _, target := range s.Targets {
		if target.Met {
			t.Errorf("%s: met", target.What)
		}
	}
}

func TestRoundsComeToMediansAndTheWorst(t *testing.T) {
	r := &rounds{}
	for _, d := range []time.Duration{1, 3, 2} {
		r.add(spreadOf([]time.Duration{d * time.Millisecond, d * time.Millisecond}))
	}
	r.add(spreadOf(nil))
	if got := r.total(); got.p50 != 2 || got.max != 3 || got.n != 6 {
		t.Errorf("got %+v", got)
	}
}

func TestStartsMeetTheirCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, now := newStarts(), time.Now()
		s.ack(1, now)
		s.begin(1, now.Add(time.Millisecond))
		s.begin(2, now) // faster than the acknowledgement
		s.ack(2, now.Add(time.Millisecond))
		s.ack(3, now)
		if err := s.await(t.Context(), 1, time.Second); err != nil {
			t.Errorf("a job that has begun: %v", err)
		}
		if err := s.await(t.Context(), 3, time.Second); !errors.Is(err, errNotStarted) {
			t.Errorf("a job that has not begun: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.settle(ctx, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("settle after the end: %v", err)
		}
		if err := s.settle(t.Context(), time.Second); err != nil {
			t.Errorf("settle: %v", err)
		}
		took, left := s.reset()
		if len(took) != 3 || took[0] != time.Millisecond || took[1] != 0 || took[2] < 2*time.Second || left != 1 {
			t.Errorf("got %v, %d left", took, left)
		}
		s.ack(4, time.Now())
		s.read(strings.NewReader("nonsense\n4 1\n"))
		if err := s.await(t.Context(), 4, time.Second); err != nil {
			t.Errorf("a job that its process told of: %v", err)
		}
	})
}

func TestAWrongConfigurationIsToldAtOnce(t *testing.T) {
	err := Config{Only: []string{"latency", "speed"}, Slice: time.Millisecond, Rounds: -1}.Check()
	for _, want := range []string{`no section "speed"`, "duration is 1ms", "rounds is -1", "latency, enqueue"} {
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ",", ", "), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if err := (Config{Short: true}).Check(); err != nil {
		t.Error(err)
	}
}
