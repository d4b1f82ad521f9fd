package bench

import (
	"math"
	"slices"
	"time"
)

// quantile returns the smallest value that at least the share q of all values doesn't exceed; NaN when there is none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// median leaves out what was not measured (NaN); it is NaN when nothing was.
func median(values []float64) float64 {
	v := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(v)
	switch n := len(v); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return v[n/2]
	default:
		return (v[n/2-1] + v[n/2]) / 2
	}
}

// spread is what a round of one contender comes to, in milliseconds.
type spread struct {
	p50, p95, p99, max float64
	n                  int
}

func spreadOf(took []time.Duration) spread {
	ms := make([]float64, len(took))
	for i, d := range took {
		ms[i] = float64(d) / float64(time.Millisecond)
	}
	slices.Sort(ms)
	return spread{quantile(ms, 0.50), quantile(ms, 0.95), quantile(ms, 0.99), quantile(ms, 1), len(ms)}
}

// rounds is what all rounds of one contender come to.
type rounds struct {
	spreads []spread
	rates   []float64 // a second; empty where no rate is measured
	errors  int
	late    int // jobs that had not started when the round's time was over
}

func (r *rounds) add(s spread) { r.spreads = append(r.spreads, s) }

func (r *rounds) medianOf(f func(spread) float64) float64 { return median(each(r.spreads, f)) }

// total is the medians over the rounds, and the worst of all.
func (r *rounds) total() spread {
	t := spread{max: math.NaN()}
	t.p50 = r.medianOf(func(s spread) float64 { return s.p50 })
	t.p95 = r.medianOf(func(s spread) float64 { return s.p95 })
	t.p99 = r.medianOf(func(s spread) float64 { return s.p99 })
	for _, s := range r.spreads {
		if math.IsNaN(t.max) || s.max > t.max {
			t.max = s.max
		}
		t.n += s.n
	}
	return t
}

// ratio is the median over the rounds of a's figure by b's of the same round.
func ratio(a, b *rounds, f func(spread) float64) float64 {
	return medianRatio(each(a.spreads, f), each(b.spreads, f))
}

// medianRatio divides round by round: what disturbs a round disturbs both. A round in which b came to nothing was not measured.
func medianRatio(a, b []float64) float64 {
	var q []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			q = append(q, a[i]/b[i])
		}
	}
	return median(q)
}

func each[T any](in []T, f func(T) float64) []float64 {
	out := make([]float64, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func p50(s spread) float64 { return s.p50 }
func p99(s spread) float64 { return s.p99 }
