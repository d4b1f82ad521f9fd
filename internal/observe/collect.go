package observe

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Describe makes the Observer a collector whose metrics are told where they are collected.
func (o *Observer) Describe(chan<- *prometheus.Desc) {}

// Collect is called at each scrape.
func (o *Observer) Collect(ch chan<- prometheus.Metric) {
	emitter{ch, nil}.gauge("build_info", "Always 1: the version is in the labels.", 1, "version", o.cfg.Version, "go_version", runtime.Version())
	o.each(func(_ int, d *Database) { d.collect(emitter{ch, []string{"database", d.name}}) })
}

func (d *Database) collect(e emitter) {
	if p := d.parts.Load(); p != nil {
		if p.Sent != nil { // first: without what is asked for these metrics
			e.counter("statements_total", "Statements sent to the database, begin and commit included.", float64(p.Sent.Count()))
			e.counter("pool_pings_total", "Questions whether an idle connection still lives, before it was used.", float64(p.Sent.Pings()))
		}
		if p.Worker != nil {
			collectWorker(e, p.Worker.Stats(), p.Types)
		}
		if p.Listener != nil {
			collectListener(e, p.Listener.State())
		}
		if p.Engine != nil {
			collectEngine(e, p.Engine.Stats())
		}
		if p.Pool != nil {
			collectPool(e, p.Pool.Stat())
		}
		if p.Retention != nil {
			n := p.Retention.Purged()
			e.counter("purged_jobs_total", "Old jobs that this worker has removed.", float64(n.Jobs))
			e.counter("purged_refreshes_total", "Old refreshes that this worker has removed.", float64(n.Refreshes))
		}
		if p.Store != nil {
			d.collectLook(e, d.looks.look(context.Background(), d, p.Store))
		}
	}
	e.gauge("ready", "1 when /readyz says ready of this database.", yes(d.check().Ready))
	e.counter("scrape_errors_total", "Questions for metrics that the database did not answer; the metrics that they are for are missing then.", float64(d.scrapeErrors.Load()))
}

// emitter sends metrics. Labels are pairs of name and value; one name always has the same help and the same labels.
type emitter struct {
	ch     chan<- prometheus.Metric
	labels []string // that all have
}

func (e emitter) gauge(name, help string, v float64, labels ...string) {
	e.send(prometheus.GaugeValue, name, help, v, labels)
}

func (e emitter) counter(name, help string, v float64, labels ...string) {
	e.send(prometheus.CounterValue, name, help, v, labels)
}

func (e emitter) send(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	d, values := describe(name, help, slices.Concat(e.labels, labels))
	e.ch <- prometheus.MustNewConstMetric(d, kind, v, values...)
}

func (e emitter) histogram(name, help string, count uint64, sum time.Duration, buckets map[float64]uint64, labels ...string) {
	d, values := describe(name, help, slices.Concat(e.labels, labels))
	e.ch <- prometheus.MustNewConstHistogram(d, count, sum.Seconds(), buckets, values...)
}

func describe(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc("notifyworker_"+name, help, names, nil), values
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unix is seconds since 1970, 0 for never.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
