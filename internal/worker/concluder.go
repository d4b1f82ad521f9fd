package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"notifyworker/internal/queue"
)

const (
	maxBatch  = 500 // completions in one statement
	returners = 2   // goroutines that return jobs, each one job a call

	busyFirst = 10 * time.Millisecond // somebody holds the row's lock: tried again after this, doubled each time
	busyCap   = time.Second
)

// conclusion is an outcome on its way to the table.
type conclusion struct {
	*hold
	out   queue.Outcome
	tries int       // that failed, or met a locked row
	at    time.Time // not before; of what was not tried: others may go with it until then
	bare  bool      // its note was refused by the database: returned without it
}

// concluder writes outcomes: completions many at a time, returns one by one. It adds no delay but in gather.go: what comes while nothing is
// being written is written at once, what comes meanwhile goes with the next batch. How much can pile up is bounded by slots.
type concluder struct {
	w         *Worker
	completed *lane
	returned  *lane
}

func newConcluder(w *Worker) concluder {
	return concluder{w: w, completed: newLane(), returned: newLane()}
}

// run writes until ctx ends.
func (c *concluder) run(ctx context.Context) {
	var wg sync.WaitGroup
	var completing, returning sharedTrouble
	wg.Go(func() {
		c.completed.drive(ctx, maxBatch, func(batch []*conclusion) { c.complete(ctx, batch, &completing) })
	})
	for range returners {
		wg.Go(func() { c.returned.drive(ctx, 1, func(one []*conclusion) { c.giveBack(ctx, one[0], &returning) }) })
	}
	wg.Wait()
}

func (c *concluder) put(x *conclusion) { c.lane(x).put(x) }

// putFirst puts an outcome as it comes from its handler.
func (c *concluder) putFirst(x *conclusion) {
	l := c.lane(x)
	if l == c.completed {
		x.at = c.w.gathering.others()
	}
	l.put(x)
}

func (c *concluder) lane(x *conclusion) *lane {
	if x.out.Kind == queue.Completed || x.out.Kind == queue.CompletedWithErrors {
		return c.completed
	}
	return c.returned
}

func (c *concluder) complete(ctx context.Context, batch []*conclusion, trouble *sharedTrouble) {
	rows := make([]queue.Completion, len(batch))
	byID := make(map[int64]*conclusion, len(batch))
	for i, x := range batch {
		rows[i] = queue.Completion{ID: x.job.ID, Token: x.job.Token, WithErrors: x.out.Kind == queue.CompletedWithErrors, Result: x.out.Result}
		byID[x.job.ID] = x
	}
	sctx, done := context.WithTimeout(ctx, statementTimeout)
	res, err := c.w.store.Complete(sctx, rows)
	done()
	switch {
	case ctx.Err() != nil && err != nil:
		c.again(batch, err)
	case err != nil && !retryable(err) && len(batch) > 1:
		// One row that the database does not take must not keep back the others.
		half := len(batch) / 2
		c.complete(ctx, batch[:half], trouble)
		c.complete(ctx, batch[half:], trouble)
	case queue.SetupProblem(err): // it is stored when somebody has repaired the cause
		trouble.note(c.w, err, "complete jobs")
		c.again(batch, err)
	case err != nil && !retryable(err):
		x := batch[0]
		x.out = checked(queue.Outcome{Kind: queue.Failed, Err: fmt.Errorf("the work was done, but its result can't be stored: %w", err)})
		x.tries = 0
		c.put(x)
	case err != nil:
		trouble.note(c.w, err, "complete jobs")
		c.again(batch, err)
	default:
		trouble.note(c.w, nil, "complete jobs")
		for _, id := range res.Done {
			if x := byID[id]; x != nil {
				delete(byID, id)
				c.w.settle(x.hold, x.out, outcomeOf(x.out.Kind), 0)
			}
		}
		for _, id := range res.Lost {
			if x := byID[id]; x != nil {
				delete(byID, id)
				c.w.settle(x.hold, x.out, outcomeLost, 0)
			}
		}
		rest := make([]*conclusion, 0, len(byID)) // Busy, and whatever was not answered for
		for _, x := range batch {
			if byID[x.job.ID] == x {
				rest = append(rest, x)
			}
		}
		c.again(rest, nil)
	}
}

var causes = map[queue.Kind]queue.Cause{
	queue.Refused: queue.CauseRefused, queue.Failed: queue.CauseFailed, queue.Permanent: queue.CausePermanent, queue.Released: queue.CauseReleased,
}

func (c *concluder) giveBack(ctx context.Context, x *conclusion, trouble *sharedTrouble) {
	r := queue.Return{
		ID: x.job.ID, Token: x.job.Token, Cause: causes[x.out.Kind], Err: x.out.Err.Error(), Note: x.out.Result,
		Delay: x.out.Delay, Limit: x.settings.Limit(x.job.MaxAttempts),
	}
	if x.bare {
		r.Note = nil
	}
	if r.Delay == 0 && (x.out.Kind == queue.Refused || x.out.Kind == queue.Failed) {
		r.Delay = x.settings.Backoff(x.job.Attempt)
	}
	sctx, done := context.WithTimeout(ctx, statementTimeout)
	res, err := c.w.store.Requeue(sctx, r)
	done()
	one := []*conclusion{x}
	switch {
	case err != nil && !retryable(err) && len(r.Note) > 0:
		x.bare = true
		x.out.Err = fmt.Errorf("%s (its result can't be stored: %s)", x.out.Err, bounded(err.Error(), maxLogged))
		x.out = checked(x.out)
		c.put(x)
	case err != nil:
		if ctx.Err() == nil {
			trouble.note(c.w, err, "return a job")
		}
		c.again(one, err)
	case res.Verdict == queue.Busy:
		trouble.note(c.w, nil, "return a job")
		c.again(one, nil)
	default:
		trouble.note(c.w, nil, "return a job")
		name := string(res.Verdict)
		if x.out.Kind == queue.Released && res.Verdict == queue.Requeued {
			name = outcomeOf(queue.Released)
		}
		if res.Verdict != queue.Gone {
			c.w.stats.returned(x.out.Kind)
		}
		c.w.settle(x.hold, x.out, name, res.MergedInto)
	}
}

// again puts back what was not written: err says why, nil that the rows are locked by somebody. What a rescue must have
// found meanwhile is given up.
func (c *concluder) again(batch []*conclusion, err error) {
	for _, x := range batch {
		if c.w.slots.overdue(x.hold) {
			c.w.settle(x.hold, x.out, outcomeUnwritten, 0)
			continue
		}
		d := growing(busyFirst, busyCap, min(x.tries, 20))
		if err != nil {
			d = growing(troubleFirst, troubleCap, min(x.tries, 20))
		}
		x.tries++
		x.at = time.Now().Add(d)
		c.put(x)
	}
}

// sharedTrouble is a trouble of several goroutines.
type sharedTrouble struct {
	mu sync.Mutex
	t  trouble
}

func (s *sharedTrouble) note(w *Worker, err error, doing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t.changed(err) {
		w.logTrouble(err, doing)
	}
}
