package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// handler reserves and concludes in every way there is, also by dying: it forgets its jobs, and a rescue finds them.
func (s *stress) handler(ctx context.Context, i int) error {
	r := s.rng("handler of jobs", i)
	c, err := s.connect(ctx, "worker")
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	cfg := queue.Config{DB: c, WorkerID: workerID, Types: map[string]queue.TypeSettings{"": {Lease: lease}, queue.TypePriceRefresh: {Lease: lease}}}
	if s.seed%3 == 0 {
		cfg.MaxIDs = 40
	}
	st, err := queue.New(cfg)
	if err != nil {
		return err
	}
	for {
		got, err := st.Reserve(ctx, 1+r.IntN(4))
		if err != nil || got.Poisoned != nil {
			return errors.Join(err, got.Poisoned)
		}
		s.count("reservations")
		for _, j := range got.Jobs {
			if err := s.handle(ctx, st, r, j); err != nil {
				return fmt.Errorf("job %d: %w", j.ID, err)
			}
		}
		if len(got.Jobs) == 0 || r.IntN(20) == 0 {
			if end, err := s.maintain(ctx, c, st); err != nil || end {
				return err
			}
		}
		if len(got.Jobs) == 0 {
			pause(ctx, time.Millisecond)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the queue does not get empty: %w", ctx.Err())
		}
	}
}

// maintain does what a worker does beside: rescue and sweep. When all is to be drained, it brings dead letters back, and
// says when nothing is left.
func (s *stress) maintain(ctx context.Context, c *pgx.Conn, st *queue.Store) (end bool, err error) {
	rescued, err := st.Rescue(ctx, 10)
	if err != nil {
		return false, err
	}
	for range rescued {
		s.count("rescues")
	}
	swept, err := st.Sweep(ctx)
	if err != nil {
		return false, err
	}
	if swept.Repaired != 0 {
		return false, fmt.Errorf("a sweep repaired %d additions", swept.Repaired)
	}
	if !s.dry.Load() {
		return false, nil
	}
	if _, err := c.Exec(ctx, `SELECT notifyworker.replay(id) FROM notifyworker.jobs WHERE status = 'FAILED' ORDER BY id`); err != nil {
		return false, fmt.Errorf("replay all: %w", err)
	}
	left, err := s.left(ctx)
	return !left, err
}

func (s *stress) handle(ctx context.Context, st *queue.Store, r *rand.Rand, j queue.Job) error {
	var c queue.PriceRefreshConfig
	if err := json.Unmarshal(j.Config, &c); err != nil {
		return err
	}
	var facts []fact
	for _, id := range c.ProductIDs {
		facts = append(facts, fact{j.CatalogID, string(id)})
	}
	s.handled(facts)
	if !s.dry.Load() {
		switch luck := r.IntN(100); {
		case luck < 20:
			return s.back(ctx, st, j, queue.CauseRefused, time.Duration(r.IntN(20))*time.Millisecond)
		case luck < 28:
			return s.back(ctx, st, j, queue.CauseFailed, time.Duration(r.IntN(50))*time.Millisecond)
		case luck < 30:
			return s.back(ctx, st, j, queue.CausePermanent, 0)
		case luck < 33:
			return s.back(ctx, st, j, queue.CauseReleased, 0)
		case luck < 35:
			s.count("deaths")
			return nil
		case luck < 36:
			pause(ctx, lease+200*time.Millisecond) // past its lease: somebody else may have it by now
		case luck < 60:
			pause(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
		}
	}
	for {
		done, err := st.Complete(ctx, []queue.Completion{{ID: j.ID, Token: j.Token}})
		switch {
		case err != nil:
			return err
		case len(done.Done) == 1:
			s.count("completions")
			s.delivered(facts)
			return nil
		case len(done.Lost) == 1:
			s.count("lost tokens")
			return nil
		}
		pause(ctx, time.Millisecond) // somebody has the row locked
	}
}

func (s *stress) back(ctx context.Context, st *queue.Store, j queue.Job, cause queue.Cause, delay time.Duration) error {
	for {
		out, err := st.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: cause, Err: "not now", Delay: delay})
		if err != nil {
			return err
		}
		if out.Verdict != queue.Busy {
			s.count("returned: " + string(out.Verdict))
			return nil
		}
		pause(ctx, time.Millisecond)
	}
}
