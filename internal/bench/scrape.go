package bench

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"notifyworker/internal/worker"
)

// metrics are what a worker process tells at /metrics.
type metrics map[string]*dto.MetricFamily

const scrapeWithin = 15 * time.Second

func scrape(ctx context.Context, url string) (metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask a worker for its metrics: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask a worker for its metrics: %s", res.Status)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	m, err := p.TextToMetricFamilies(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read a worker's metrics: %w", err)
	}
	return m, nil
}

// counter is the sum of a name over all databases.
func (m metrics) counter(name string) (sum float64, err error) {
	if m[name] == nil {
		return 0, fmt.Errorf("the worker tells no %s", name)
	}
	for _, one := range m[name].GetMetric() {
		sum += one.GetCounter().GetValue()
	}
	return sum, nil
}

// histogram is one of the histograms of a name: that whose label has this value.
func (m metrics) histogram(name, label, value string) (histogram, error) {
	for _, one := range m[name].GetMetric() {
		for _, l := range one.GetLabel() {
			if l.GetName() == label && l.GetValue() == value && one.GetHistogram() != nil {
				return histogramOf(one.GetHistogram()), nil
			}
		}
	}
	return histogram{}, fmt.Errorf("the worker tells no %s of %s %s", name, label, value)
}

// histogram is how many values lie below each bound, in seconds.
type histogram struct {
	bounds []float64 // ascending; those without end, and below all bounds, are left out
	below  []float64 // as many: values up to the bound
	n      float64
}

func histogramOf(h *dto.Histogram) histogram {
	out := histogram{n: float64(h.GetSampleCount())}
	for _, b := range h.GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 1) {
			out.bounds, out.below = append(out.bounds, b.GetUpperBound()), append(out.below, float64(b.GetCumulativeCount()))
		}
	}
	return out
}

// histogramFrom reads one of a worker in this process.
func histogramFrom(h worker.Histogram) histogram {
	out := histogram{n: float64(h.Count)}
	below := h.Cumulative()
	for _, bound := range slices.Sorted(maps.Keys(below)) {
		out.bounds, out.below = append(out.bounds, bound), append(out.below, float64(below[bound]))
	}
	return out
}

// since is what came after an earlier look at the same histogram.
func (h histogram) since(before histogram) histogram {
	out := histogram{bounds: h.bounds, below: slices.Clone(h.below), n: h.n - before.n}
	for i := range before.below {
		out.below[i] -= before.below[i]
	}
	return out
}

// plus is both together; one that has counted nothing may lack bounds.
func (h histogram) plus(other histogram) histogram {
	if len(h.bounds) == 0 {
		return other
	}
	out := histogram{bounds: h.bounds, below: slices.Clone(h.below), n: h.n + other.n}
	for i := range other.below {
		out.below[i] += other.below[i]
	}
	return out
}

// quantile is in milliseconds; within a bucket values are taken to lie evenly. NaN when there is none.
func (h histogram) quantile(q float64) float64 {
	if h.n <= 0 || len(h.bounds) == 0 {
		return math.NaN()
	}
	want, from, under := q*h.n, 0.0, 0.0
	for i, bound := range h.bounds {
		if h.below[i] >= want && h.below[i] > under {
			return 1e3 * (from + (bound-from)*(want-under)/(h.below[i]-under))
		}
		from, under = bound, h.below[i]
	}
	return 1e3 * from // beyond all bounds
}
