package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"golang.org/x/sync/errgroup"
)

func TestB05EveryEnqueueReturnsAnIDUnderContention(t *testing.T) {
	const writers, catalogs = 8, 5
	each := 250
	if testing.Short() {
		each = 60
	}
	tb := newTable(t, queue.Config{})
	pool, err := queue.OpenPool(t.Context(), tb.db.URL, "b05", writers+4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	told := make([][]int64, writers)
	var done atomic.Bool
	var write, work errgroup.Group
	for i := range writers {
		write.Go(func() error {
			for k := range each {
				var id *int64
				err := pool.QueryRow(context.Background(), `SELECT job_id FROM notifyworker.enqueue_price_refresh($1, jsonb_build_array($2::text))`,
					fmt.Sprintf("c%d", k%catalogs), fmt.Sprintf("%d-%d", i, k)).Scan(&id)
				if err != nil || id == nil {
					return fmt.Errorf("enqueue %d of writer %d: %v, %v", k, i, id, err)
				}
				told[i] = append(told[i], *id)
			}
			return nil
		})
	}
	for i := range 4 {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		work.Go(func() error { return churn(tb, r, &done) })
	}
	if err := write.Wait(); err != nil {
		t.Error(err)
	}
	done.Store(true)
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	for range 100 {
		tb.complete(tb.reserve(100)...)
		tb.due()
		if one[bool](tb, `SELECT NOT EXISTS (SELECT FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING')) AND NOT EXISTS (SELECT FROM notifyworker.job_additions)`) {
			break
		}
	}
	if n := one[int](tb, `SELECT count(DISTINCT x) FROM notifyworker.jobs j, jsonb_array_elements_text(j.config -> 'productIds') x
		WHERE j.status = 'COMPLETED' AND NOT j.result ? 'mergedIntoJobId'`); n != writers*each {
		t.Errorf("%d of %d ids were delivered", n, writers*each)
	}
	var all []int64
	for _, ids := range told {
		all = append(all, ids...)
	}
	if n := one[int](tb, `SELECT count(*) FROM unnest($1::bigint[]) x(id) WHERE NOT EXISTS (SELECT FROM notifyworker.jobs j WHERE j.id = x.id)`, all); n != 0 {
		// A successor that somebody was told of may have been removed again, when its ids had gone with another job.
		t.Logf("%d of %d told ids are of successors that were removed", n, len(all))
	}
}

// churn reserves, and completes or requeues at random, until done.
func churn(tb *table, r *rand.Rand, done *atomic.Bool) error {
	st, err := queue.New(queue.Config{DB: tb.pool, WorkerID: workerID})
	if err != nil {
		return err
	}
	for !done.Load() {
		got, err := st.Reserve(context.Background(), 1+r.IntN(3))
		if err != nil || got.Poisoned != nil {
			return errors.Join(err, got.Poisoned)
		}
		for _, j := range got.Jobs {
			if r.IntN(2) == 0 {
				if err := complete(context.Background(), st, []queue.Job{j}); err != nil {
					return err
				}
				continue
			}
			for busy := true; busy; {
				out, err := st.Requeue(context.Background(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: "not now"})
				if err != nil {
					return err
				}
				if out.Verdict == queue.Gone {
					return fmt.Errorf("job %d was lost", j.ID)
				}
				busy = out.Verdict == queue.Busy
			}
		}
	}
	return nil
}

// Requeue, enqueue, cancel, rescue, purge and replay of one catalog, all at once, take rows in orders that never deadlock.
func TestB14NothingDeadlocks(t *testing.T) {
	tb := newTable(t, queue.Config{})
	length := 3 * time.Second
	if testing.Short() {
		length = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var calls atomic.Int64
	var g errgroup.Group
	again := func(f func() error) {
		for range 2 {
			g.Go(func() error {
				for ctx.Err() == nil {
					if err := f(); err != nil {
						return err
					}
					calls.Add(1)
				}
				return nil
			})
		}
	}
	sql := func(text string) func() error {
		return func() error {
			_, err := tb.pool.Exec(context.Background(), text)
			return err
		}
	}
	again(sql(`SELECT notifyworker.enqueue_price_refresh('c', '["p"]')`))
	again(sql(`SELECT notifyworker.enqueue_price_refreshes('[{"catalogId": "d", "productIds": [1]}, {"catalogId": "c", "productIds": [2]}]')`))
	again(sql(`SELECT notifyworker.cancel(id) FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING') ORDER BY id LIMIT 2`))
	again(sql(`SELECT notifyworker.replay(id) FROM notifyworker.jobs WHERE status = 'FAILED' ORDER BY id DESC LIMIT 2`))
	again(sql(`DELETE FROM notifyworker.jobs WHERE id = ANY (ARRAY(SELECT id FROM notifyworker.jobs WHERE finished_at IS NOT NULL ORDER BY finished_at OFFSET 100 FOR UPDATE SKIP LOCKED))`))
	again(func() error {
		r, err := tb.Store.Reserve(context.Background(), 3)
		if err == nil {
			err = r.Poisoned
		}
		for _, j := range r.Jobs {
			if err == nil {
				_, err = tb.Requeue(context.Background(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused})
			}
		}
		return err
	})
	again(func() error {
		_, err := tb.pool.Exec(context.Background(), `UPDATE notifyworker.jobs SET lease_expires_at = now() WHERE id = ANY (ARRAY(
			SELECT id FROM notifyworker.jobs WHERE status = 'RUNNING' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED))`)
		if err == nil {
			_, err = tb.Rescue(context.Background(), 5)
		}
		if err == nil {
			_, err = tb.Sweep(context.Background())
		}
		return err
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if n := one[int](tb, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	tb.sound()
	t.Logf("%d calls", calls.Load())
	tb.db.NoServerErrors(t)
}
