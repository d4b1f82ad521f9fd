package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"notifyworker/internal/queue"
)

// starts puts the commit of each job and the start of its handler together. Both times are of this process's clock.
type starts struct {
	mu      sync.Mutex
	acked   map[int64]time.Time // committed, not begun yet
	begun   map[int64]time.Time // begun before the client knew of its commit
	waiting map[int64]chan struct{}
	took    []time.Duration
	due     bool // set before any worker runs: measured is how late a job was reserved after its due time, by the server's clock
	late    []time.Duration
	errors  int           // of clients
	first   error         // the first of them
	changed chan struct{} // has room for one: something has begun
}

func newStarts() *starts {
	return &starts{acked: map[int64]time.Time{}, begun: map[int64]time.Time{}, waiting: map[int64]chan struct{}{}, changed: make(chan struct{}, 1)}
}

// Handle is the handler of all jobs that are measured: it takes note, and that is all.
func (s *starts) Handle(_ context.Context, j queue.Job) queue.Outcome {
	s.begin(j.ID, time.Now())
	if s.due {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late = append(s.late, j.StartedAt.Sub(j.RunAfter))
	}
	return queue.Outcome{}
}

// begin takes note that a job's handler began at a time.
func (s *starts) begin(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.acked[id]; ok {
		delete(s.acked, id)
		s.took = append(s.took, at.Sub(t))
	} else {
		s.begun[id] = at
	}
	if c, ok := s.waiting[id]; ok {
		delete(s.waiting, id)
		close(c)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// ack takes note that the commit of a job was acknowledged at a time. A handler that was faster than that took no time.
func (s *starts) ack(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.begun[id]; ok {
		delete(s.begun, id)
		s.took = append(s.took, max(0, t.Sub(at)))
		return
	}
	s.acked[id] = at
}

// failed counts an error of a client.
func (s *starts) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors++
	if s.first == nil {
		s.first = err
	}
}

var errNotStarted = errors.New("a job had not started in time")

// await waits for a job that was acknowledged to begin.
func (s *starts) await(ctx context.Context, id int64, within time.Duration) error {
	s.mu.Lock()
	if _, ok := s.acked[id]; !ok {
		s.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	s.waiting[id] = c
	s.mu.Unlock()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-c:
		return nil
	case <-t.C:
		return errNotStarted
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until all that was acknowledged has begun, for so long at most.
func (s *starts) settle(ctx context.Context, within time.Duration) error {
	t := time.NewTimer(within)
	defer t.Stop()
	for {
		s.mu.Lock()
		left := len(s.acked)
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-s.changed:
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns what was measured since the last time, and how many jobs have not begun yet, which go on being waited for.
func (s *starts) take() (took []time.Duration, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took = s.took
	s.took = nil
	return took, len(s.acked)
}

// reset returns what was measured since the last reset, and how many jobs have not begun. What one of those has waited until now is
// among what was measured: it will be more.
func (s *starts) reset() (took []time.Duration, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took, left = s.took, len(s.acked)
	for _, at := range s.acked {
		took = append(took, time.Since(at))
	}
	if s.due {
		took = s.late
	}
	s.took, s.late = nil, nil
	clear(s.acked)
	clear(s.begun)
	return took, left
}
