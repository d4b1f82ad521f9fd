package worker

import (
	"context"
	"runtime"
	"slices"
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

// A statement of a hundred results of a megabyte would not be through in time, again and again.
func TestABatchIsNoHeavierThanAStatementMayBe(t *testing.T) {
	l := newLane()
	for id := range int64(10) {
		size := mostWeight / 3
		if id == 5 {
			size = 2 * mostWeight
		}
		l.put(&conclusion{hold: &hold{job: queue.Job{ID: id}}, out: queue.Outcome{Result: make([]byte, size)}})
	}
	var got []int
	for {
		batch, _ := l.take(maxBatch)
		if len(batch) == 0 {
			break
		}
		got = append(got, len(batch))
	}
	if want := []int{3, 3, 1, 3}; !slices.Equal(got, want) { // the large one alone
		t.Errorf("batches of %d, want %d", got, want)
	}
}
