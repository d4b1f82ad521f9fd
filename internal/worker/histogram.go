package worker

import "time"

// histogramBounds are the upper ends of the buckets: fine where a wake-up is won or lost, and where a quantile that lies between
// two of them is to be told apart from twice as much.
var histogramBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, 750 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond,
	2 * time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond, 5 * time.Millisecond, 7500 * time.Microsecond,
	10 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 35 * time.Millisecond, 50 * time.Millisecond,
	75 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute,
}

// Histogram counts durations by size. It is a value: a copy is a snapshot.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	buckets [len(histogramBounds) + 1]uint64
}

func (h *Histogram) observe(d time.Duration) {
	h.Count++
	h.Sum += d
	for i, bound := range histogramBounds {
		if d <= bound {
			h.buckets[i]++
			return
		}
	}
	h.buckets[len(histogramBounds)]++
}

// Cumulative returns how many durations were at most each bound, in seconds: the shape that Prometheus wants.
func (h Histogram) Cumulative() map[float64]uint64 {
	m := make(map[float64]uint64, len(histogramBounds))
	var n uint64
	for i, bound := range histogramBounds {
		n += h.buckets[i]
		m[bound.Seconds()] = n
	}
	return m
}

// Quantile returns the bound below which a share q (0 to 1) of the durations lies; 0 when there are none, and the largest
// bound for what is beyond it.
func (h Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	want := uint64(q * float64(h.Count))
	var n uint64
	for i, bound := range histogramBounds {
		if n += h.buckets[i]; n > want || n == h.Count {
			return bound
		}
	}
	return histogramBounds[len(histogramBounds)-1]
}
