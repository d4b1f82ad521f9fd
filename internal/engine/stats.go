package engine

import (
	"errors"
	"sync/atomic"
)

// Stats is a snapshot of what an engine has done since its start; Running, Queued and Places are of the moment.
type Stats struct {
	Places, Queued, Running int // places taken of Capacity; waiting; running
	Capacity                int

	Accepted, Released, TakenOver, HandedBack, Lost int64
	Refused                                         map[string]int64 // by product_in_flight, full_in_flight, queue_full, stopped
	Calls, Failures                                 int64            // of the recomputation
	Recomputed                                      int64            // prices, as the recomputation says
	FailedProducts                                  int64            // in dead letters
}

type counters struct {
	running                                           atomic.Int64
	accepted, released, takenOver, handedBack, lost   atomic.Int64
	productInFlight, fullInFlight, queueFull, stopped atomic.Int64
	calls, failures, recomputed, failedIDs            atomic.Int64
}

// refuse counts a refusal; any other error counts as none.
func (c *counters) refuse(err error) {
	switch {
	case errors.Is(err, ErrProductRefreshInFlight):
		c.productInFlight.Add(1)
	case errors.Is(err, ErrFullRefreshCatalogInFlight):
		c.fullInFlight.Add(1)
	case errors.Is(err, ErrQueueFull):
		c.queueFull.Add(1)
	case errors.Is(err, ErrRunnerStopped):
		c.stopped.Add(1)
	}
}

// Stats returns a snapshot.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	places := e.places
	e.mu.Unlock()
	c := &e.stats
	return Stats{
		Places: places, Queued: len(e.queue), Running: int(c.running.Load()), Capacity: e.capacity(),
		Accepted: c.accepted.Load(), Released: c.released.Load(), TakenOver: c.takenOver.Load(), HandedBack: c.handedBack.Load(), Lost: c.lost.Load(),
		Refused: map[string]int64{
			"product_in_flight": c.productInFlight.Load(), "full_in_flight": c.fullInFlight.Load(),
			"queue_full": c.queueFull.Load(), "stopped": c.stopped.Load(),
		},
		Calls: c.calls.Load(), Failures: c.failures.Load(), Recomputed: c.recomputed.Load(), FailedProducts: c.failedIDs.Load(),
	}
}
