package worker

import (
	"context"
	"runtime"
	"testing"
	"time"

	"notifyworker/internal/queue"
)

// Somebody may hold one row for hours while all others are written.
func TestAConclusionThatWaitsCostsNothingMeanwhile(t *testing.T) {
	l := newLane()
	ctx, cancel := context.WithCancel(t.Context())
	written, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.drive(ctx, 10, func([]*conclusion) { written <- struct{}{} })
	}()
	l.put(&conclusion{hold: &hold{job: queue.Job{ID: 1}}, at: time.Now().Add(time.Hour)})
	now := &conclusion{hold: &hold{job: queue.Job{ID: 2}}}
	write := func(n int) uint64 {
		for range n {
			l.put(now)
			<-written
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	before := write(100)
	if after := write(20_000); after > before+5_000 {
		t.Errorf("%d objects more after 20,000 batches", after-before)
	}
	cancel()
	<-done
}
