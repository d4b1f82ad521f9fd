package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// verdict replays what is FAILED, lets a worker reserve all that is left, and then says whether each promised id was
// delivered, once, where everybody who was told of it will find it.
func (w *world) verdict(ctx context.Context) error {
	if err := w.replayAll(ctx); err != nil {
		return err
	}
	if err := w.drain(ctx); err != nil {
		return err
	}
	s, err := read(ctx, w.observer)
	if err != nil {
		return err
	}
	errs := w.lookAt(s)
	delivered := map[fact]int{}
	for _, j := range s.Jobs {
		if j.Status == "COMPLETED" && j.Into == nil {
			for _, id := range j.IDs {
				delivered[fact{j.Catalog, string(id)}]++
			}
		}
	}
	for f := range w.kept {
		if n := delivered[f]; n != 1 && !w.excused[f] {
			errs = append(errs, fmt.Errorf("product id %s of catalog %s was delivered %d times", f.id, f.catalog, n))
		}
	}
	for id := range w.told {
		if !w.seen[id] {
			errs = append(errs, fmt.Errorf("an enqueuer was told of job %d, which never was", id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		text, _ := json.Marshal(s)
		return fmt.Errorf("at the end: %w\n\ttables: %s", err, text)
	}
	return nil
}

// allIsDue makes what waits due; leasesEnd ends the leases of workers that the script has left.
const (
	allIsDue = `
	UPDATE notifyworker.jobs SET run_after = now() - interval '1 s' WHERE status = 'PENDING' AND run_after > now();
	UPDATE notifyworker.job_additions SET run_after = '-infinity' WHERE run_after > now();`
	leasesEnd = `
	UPDATE notifyworker.jobs SET lease_expires_at = now() - interval '1 s' WHERE status = 'RUNNING';`
)

func (w *world) drain(ctx context.Context) error {
	st := w.store(w.observer)
	for range 50 {
		if r, err := st.Sweep(ctx); err != nil {
			return err
		} else if r.Repaired > 0 && !w.byHand {
			return fmt.Errorf("a sweep repaired %d additions", r.Repaired)
		}
		w.byHand = false
		if _, err := w.observer.Exec(ctx, allIsDue+leasesEnd); err != nil {
			return err
		}
		if _, err := st.Rescue(ctx, 100); err != nil {
			return err
		}
		r, err := st.Reserve(ctx, 100)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if r.Poisoned != nil {
			return fmt.Errorf("drain: a job can't be reserved: %w", r.Poisoned)
		}
		if err := complete(ctx, st, r.Jobs); err != nil {
			return err
		}
		var left bool
		if err := w.observer.QueryRow(ctx, `SELECT EXISTS (SELECT FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING'))
			OR EXISTS (SELECT FROM notifyworker.job_additions)`).Scan(&left); err != nil {
			return err
		}
		if !left {
			return nil
		}
	}
	s, err := read(ctx, w.observer)
	text, _ := json.Marshal(s)
	return errors.Join(fmt.Errorf("50 rounds of a worker don't drain the queue: %s", text), err)
}

// complete concludes all jobs. One that a reservation of somebody else is just passing over is busy for a moment: its row
// was locked before it was looked at.
func complete(ctx context.Context, st *queue.Store, jobs []queue.Job) error {
	cs := make([]queue.Completion, 0, len(jobs))
	for _, j := range jobs {
		cs = append(cs, queue.Completion{ID: j.ID, Token: j.Token})
	}
	for len(cs) > 0 {
		done, err := st.Complete(ctx, cs)
		if err != nil {
			return err
		}
		if len(done.Lost) > 0 {
			return fmt.Errorf("of %d jobs reserved, %d are lost", len(jobs), len(done.Lost))
		}
		cs = slices.DeleteFunc(cs, func(c queue.Completion) bool { return !slices.Contains(done.Busy, c.ID) })
	}
	return nil
}

func (w *world) replayAll(ctx context.Context) error {
	rows, err := w.observer.Query(ctx, `SELECT id FROM notifyworker.jobs WHERE status = 'FAILED' ORDER BY id`)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, id := range ids {
		var outcome string
		if err := w.observer.QueryRow(ctx, `SELECT outcome FROM notifyworker.replay($1)`, id).Scan(&outcome); err != nil {
			return fmt.Errorf("replay job %d: %w", id, err)
		}
		if outcome != "requeued" && outcome != "merged" {
			return fmt.Errorf("replay job %d: %s", id, outcome)
		}
	}
	return nil
}
