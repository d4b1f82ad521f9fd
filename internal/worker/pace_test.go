package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/worker"
)

// BenchmarkPace has clients enqueue at a rate, at random times, for one worker that goes from idle to busy and back at other
// moments than usual.
func BenchmarkPace(b *testing.B) {
	paces := []struct {
		name      string
		busyAfter time.Duration
		busyWakes int
		calmAfter time.Duration
	}{
		{"as it is", 50 * time.Millisecond, 100, 20 * time.Millisecond},
		{"always told", time.Hour, 1 << 30, 0},
		{"half the wakes", 50 * time.Millisecond, 50, 20 * time.Millisecond},
		{"twice the wakes", 50 * time.Millisecond, 200, 20 * time.Millisecond},
		{"busy later", 500 * time.Millisecond, 100, 20 * time.Millisecond},
		{"idle sooner", 50 * time.Millisecond, 100, 4 * time.Millisecond},
		{"idle later", 50 * time.Millisecond, 100, 200 * time.Millisecond},
	}
	for _, rate := range []float64{50, 200, 500, 1000, 1500} {
		for _, p := range paces {
			b.Run(fmt.Sprintf("%v a second/%s", rate, p.name), func(b *testing.B) {
				f := newFleet(b)
				defer f.leave()
				f.paced = func(w *worker.Worker) { w.SetPace(p.busyAfter, p.busyWakes, p.calmAfter) }
				f.idle(1, "")
				f.atRandomTimes(b, rate, 5*time.Second)
			})
		}
	}
}

// atRandomTimes has 8 clients enqueue for so long, and reports how the jobs fared.
func (f *fleet) atRandomTimes(b *testing.B, rate float64, during time.Duration) {
	b.Helper()
	const clients = 8
	w := f.members[0].w
	statements, before := f.statements.Load(), w.Stats()
	var committed sync.Map
	var wg sync.WaitGroup
	end := time.Now().Add(during)
	for range clients {
		wg.Go(func() {
			gap := func() time.Duration {
				return time.Duration(rand.ExpFloat64() * clients / rate * float64(time.Second))
			}
			for next := time.Now().Add(gap()); next.Before(end); next = next.Add(gap()) {
				time.Sleep(time.Until(next))
				var id int64
				if err := f.pool.QueryRow(context.Background(), "SELECT job_id FROM notifyworker.enqueue_job('t')").Scan(&id); err != nil {
					b.Error(err)
					return
				}
				committed.Store(id, time.Now())
			}
		})
	}
	wg.Wait()
	all := float64(f.report(b, &committed, statements))
	after := w.Stats()
	b.ReportMetric(float64(after.Wakes[listen.Notified]-before.Wakes[listen.Notified])/all, "wakes/job")
	b.ReportMetric(float64(after.Toggles-before.Toggles)/during.Seconds(), "toggles/s")
	b.ReportMetric(all/during.Seconds(), "jobs/s")
}
