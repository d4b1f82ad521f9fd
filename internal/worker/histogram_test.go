package worker

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for range 90 {
		h.observe(800 * time.Microsecond)
	}
	for range 10 {
		h.observe(3 * time.Second)
	}
	if p50, p99 := h.Quantile(0.5), h.Quantile(0.99); p50 != time.Millisecond || p99 != 5*time.Second {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	c := h.Cumulative()
	if c[0.0005] != 0 || c[0.001] != 90 || c[2.5] != 90 || c[5] != 100 || c[1800] != 100 {
		t.Errorf("cumulative: %v", c)
	}
	h.observe(time.Hour)
	if h.Count != 101 || h.Cumulative()[1800] != 100 || h.Quantile(1) != 30*time.Minute {
		t.Errorf("beyond the last bound: %+v", h)
	}
}
