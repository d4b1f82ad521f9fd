package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"
)

type handleFunc func(context.Context, queue.Job) queue.Outcome

func (f handleFunc) Handle(ctx context.Context, j queue.Job) queue.Outcome { return f(ctx, j) }

func TestProtoHanded(t *testing.T) {
	db := pgtest.DB(t)
	var mu sync.Mutex
	got := map[int64]int{}
	h := handleFunc(func(_ context.Context, j queue.Job) queue.Outcome {
		mu.Lock()
		defer mu.Unlock()
		got[j.ID]++
		return queue.Outcome{}
	})
	p := begin(t, db.URL, map[string]queue.Handler{"t": h, queue.TypePriceRefresh: h}, func(c *worker.Config) {})
	pool := db.Pool(t)
	time.Sleep(500 * time.Millisecond)
	for i := range 40 {
		var id int64
		var err error
		if i%2 == 0 {
			err = pool.QueryRow(t.Context(), `SELECT job_id FROM notifyworker.enqueue_job('t')`).Scan(&id)
		} else {
			err = pool.QueryRow(t.Context(), `SELECT job_id FROM notifyworker.enqueue_price_refresh($1::int::text, '["p1"]')`, i).Scan(&id)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Millisecond)
	}
	time.Sleep(time.Second)
	mu.Lock()
	t.Log(len(got), got)
	mu.Unlock()
	rows, _ := pool.Query(t.Context(), `SELECT id, type, status, lock_token::text, attempts, worker_id::text, coalesce(error,'') FROM notifyworker.jobs ORDER BY id`)
	for rows.Next() {
		v, _ := rows.Values()
		t.Log(v)
	}
	rows, _ = pool.Query(t.Context(), `SELECT * FROM notifyworker.workers`)
	for rows.Next() {
		v, _ := rows.Values()
		t.Log(v)
	}
	t.Logf("%+v", p.w.Stats())
}
