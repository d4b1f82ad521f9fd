package queue_test

import (
	"fmt"
	"testing"
	"time"

	"notifyworker/internal/queue"
)

// BenchmarkCycle reserves and completes jobs without work in batches, in one session, and reports microseconds a job of
// each: what the server and the driver cost, and no more. `make bench` runs it with durable settings.
func BenchmarkCycle(b *testing.B) {
	for _, kind := range []string{"plain", "refresh"} {
		for _, n := range []int{1, 100, 500} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) { cycle(b, kind, n) })
		}
	}
}

func cycle(b *testing.B, kind string, n int) {
	tb := newTable(b)
	fill := `INSERT INTO notifyworker.jobs (type, config) SELECT 'bench', jsonb_build_object('seq', i) FROM generate_series(1, $1::int) i`
	if kind == "refresh" {
		fill = `INSERT INTO notifyworker.jobs (type, config) SELECT 'PRICE_REFRESH', jsonb_build_object('catalogId', 'c' || i, 'productIds', '["p"]'::jsonb)
		          FROM generate_series(1, $1::int) i`
	}
	var reserving, completing time.Duration
	wal := value[float64](tb, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`)
	var filling float64
	jobs := 0
	for b.Loop() {
		b.StopTimer()
		before := value[float64](tb, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`)
		tb.exec(fill, n)
		filling += value[float64](tb, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`) - before
		b.StartTimer()
		began := time.Now()
		r := tb.reserve(n)
		reserving += time.Since(began)
		if len(r.Jobs) != n {
			b.Fatalf("reserved %d of %d", len(r.Jobs), n)
		}
		cs := make([]queue.Completion, n)
		for i, j := range r.Jobs {
			cs[i] = queue.Completion{ID: j.ID, Token: j.Token}
		}
		began = time.Now()
		done, err := tb.Complete(b.Context(), cs)
		completing += time.Since(began)
		if err != nil || len(done.Done) != n {
			b.Fatalf("completed %+v, %v", done, err)
		}
		jobs += n
	}
	wal = value[float64](tb, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`) - wal - filling
	b.ReportMetric(float64(reserving.Microseconds())/float64(jobs), "µs/reserve")
	b.ReportMetric(float64(completing.Microseconds())/float64(jobs), "µs/complete")
	b.ReportMetric(wal/float64(jobs), "WAL-B/job")
}
