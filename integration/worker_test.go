package integration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifyworker/integration/schedule"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// worker is a session of a worker. Its transactions last one call; a schedule takes them apart, to see what others do
// between the call and its commit.
type worker struct {
	w     *world
	name  string
	jobs  []queue.Job // reserved, and committed
	steps []schedule.Step
}

func newWorker(w *world, name string) *worker { return &worker{w: w, name: name} }

// do adds a call of the Store, and its end as a step of its own.
func (k *worker) do(name string, waits schedule.Waits, commit bool, f func(context.Context, *queue.Store) error) *worker {
	k.steps = append(k.steps, schedule.Step{Name: name, Waits: waits, Do: func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		k.w.opens(0, 1)
		return f(ctx, k.w.store(c))
	}})
	word := "commit"
	if !commit {
		word = "die" // its connection ends: the server rolls back
	}
	k.steps = append(k.steps, schedule.Step{Name: word, Do: func(ctx context.Context, c *pgx.Conn) error {
		end := "COMMIT"
		if !commit {
			end = "ROLLBACK"
		}
		_, err := c.Exec(ctx, end)
		k.w.opens(0, -1)
		return err
	}})
	return k
}

func (k *worker) session() schedule.Session {
	return schedule.Session{Name: k.name, Worker: true, Steps: k.steps}
}

func (k *worker) reserve(n int) *worker {
	return k.do(fmt.Sprintf("reserve %d", n), schedule.Never, true, func(ctx context.Context, s *queue.Store) error {
		r, err := s.Reserve(ctx, n)
		k.jobs = append(k.jobs, r.Jobs...)
		if err == nil {
			err = r.Poisoned
		}
		if len(r.Jobs) > n {
			err = errors.Join(err, fmt.Errorf("%d jobs came, %d were asked for", len(r.Jobs), n))
		}
		return err
	})
}

func (k *worker) reserveAndDie(n int) *worker {
	return k.do(fmt.Sprintf("reserve %d", n), schedule.Never, false, func(ctx context.Context, s *queue.Store) error {
		_, err := s.Reserve(ctx, n)
		return err
	})
}

// complete adds the conclusion of all that it reserved, in one statement.
func (k *worker) complete() *worker {
	k.steps = append(k.steps, schedule.Step{Name: "complete", Do: func(ctx context.Context, c *pgx.Conn) error {
		var cs []queue.Completion
		for _, j := range k.jobs {
			cs = append(cs, queue.Completion{ID: j.ID, Token: j.Token})
		}
		k.jobs = nil
		_, err := k.w.store(c).Complete(ctx, cs)
		return err
	}})
	return k
}

// completeRunning adds the conclusion of the scene's RUNNING job.
func (k *worker) completeRunning() *worker {
	return k.do("complete", schedule.Never, true, func(ctx context.Context, s *queue.Store) error {
		_, err := s.Complete(ctx, []queue.Completion{{ID: k.w.running, Token: k.w.token}})
		return err
	})
}

// back adds a return of the scene's RUNNING job.
func (k *worker) back(cause queue.Cause, delay time.Duration) *worker {
	return k.do("requeue "+string(cause), schedule.ForWorkers, true, func(ctx context.Context, s *queue.Store) error {
		_, err := s.Requeue(ctx, queue.Return{ID: k.w.running, Token: k.w.token, Cause: cause, Err: "not now", Delay: delay})
		return err
	})
}

// backAll adds a return of all that it reserved.
func (k *worker) backAll() *worker {
	return k.do("requeue what it reserved", schedule.ForWorkers, true, func(ctx context.Context, s *queue.Store) error {
		var errs []error
		for _, j := range k.jobs {
			_, err := s.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: "not now"})
			errs = append(errs, err)
		}
		k.jobs = nil
		return errors.Join(errs...)
	})
}

func (k *worker) rescue() *worker {
	return k.do("rescue", schedule.ForWorkers, true, func(ctx context.Context, s *queue.Store) error {
		_, err := s.Rescue(ctx, 10)
		return err
	})
}

func (k *worker) sweep() *worker {
	return k.do("sweep", schedule.Never, true, func(ctx context.Context, s *queue.Store) error {
		r, err := s.Sweep(ctx)
		if err == nil && r.Repaired > 0 && !k.w.byHand {
			err = fmt.Errorf("a sweep repaired %d additions", r.Repaired)
		}
		return err
	})
}

func (k *worker) purge() *worker {
	return k.do("purge", schedule.Never, true, func(ctx context.Context, s *queue.Store) error {
		_, err := s.Purge(ctx, queue.Retention{Completed: time.Hour, Failed: time.Hour}, 100)
		return err
	})
}
