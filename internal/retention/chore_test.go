package retention_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/internal/retention"

	"github.com/rs/zerolog"
)

// table has so many old jobs.
type table struct {
	mu    sync.Mutex
	jobs  int64
	err   error
	calls []time.Time
}

func (s *table) Purge(_ context.Context, _ queue.Retention, n int) (queue.Purged, error) {
	time.Sleep(200 * time.Millisecond) // what a batch takes
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	p := queue.Purged{Jobs: min(s.jobs, int64(n))}
	s.jobs -= p.Jobs
	return p, s.err
}

func TestARoundGoesOnWhileBatchesAreFullAndRestsAsLongAsItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &table{jobs: 2300}
		c, err := retention.New(retention.Config{Store: s, Keep: queue.Retention{Completed: time.Hour}, Batch: 1000})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 70*time.Second) // one round, two at most
		defer stop()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if c.Purged().Jobs != 2300 || len(s.calls) < 3 {
			t.Fatalf("removed %+v by %d calls", c.Purged(), len(s.calls))
		}
		for i := 1; i < 3; i++ {
			if gap := s.calls[i].Sub(s.calls[i-1]); gap != 400*time.Millisecond {
				t.Errorf("batch %d came %v after the one before", i, gap)
			}
		}
	})
}

func TestTroubleIsToldOnceAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &table{err: errors.New("no such luck")}
		var log strings.Builder
		c, err := retention.New(retention.Config{Store: s, Keep: queue.Retention{Failed: time.Hour}, Log: zerolog.New(&log)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(s.calls) < 4 || strings.Count(log.String(), "no such luck") != 1 {
			t.Errorf("%d calls, log:\n%s", len(s.calls), log.String())
		}
	})
}

func TestWhereAllIsKeptThereIsNothingToDo(t *testing.T) {
	s := &table{}
	c, err := retention.New(retention.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err != nil || len(s.calls) != 0 {
		t.Errorf("%v, %d calls", err, len(s.calls))
	}
	if _, err := retention.New(retention.Config{Store: s, Keep: queue.Retention{Failed: time.Second}}); err == nil {
		t.Error("a retention of a second is accepted")
	}
}

// A job that was merged goes no earlier than it is old itself, whatever became of the one that has its ids; and the latter,
// waiting or running for a year, stays.
func TestMergedJobsGoByTheirOwnAge(t *testing.T) {
	pool := pgtest.DB(t).Pool(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`INSERT INTO notifyworker.jobs (type, status, config, result, created_at, run_after, started_at, finished_at, lock_token, lease_expires_at)
	      SELECT 'PRICE_REFRESH', s, jsonb_build_object('catalogId', s, 'productIds', '[]'::jsonb), '{}', now() - age, now() - age, now() - age,
	             CASE WHEN s NOT IN ('PENDING', 'RUNNING') THEN now() - age END,
	             CASE WHEN s = 'RUNNING' THEN gen_random_uuid() END, CASE WHEN s = 'RUNNING' THEN now() + interval '1 h' END
	        FROM (VALUES ('PENDING', interval '1 year'), ('RUNNING', '1 year'), ('COMPLETED', '1 year'), ('FAILED', '1 year'), ('COMPLETED', '1 hour')) v (s, age)`)
	exec(`UPDATE notifyworker.jobs j SET result = jsonb_build_object('mergedIntoJobId', (SELECT id FROM notifyworker.jobs WHERE status = 'PENDING')) WHERE status = 'COMPLETED'`)
	store, err := queue.New(queue.Config{DB: pool, WorkerID: "aaaaaaaa-0000-4000-8000-000000000001"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := retention.New(retention.Config{Store: store, Keep: queue.Retention{Completed: 24 * time.Hour, Failed: 24 * time.Hour}, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := store.Purgeable(t.Context(), queue.Retention{Completed: 24 * time.Hour, Failed: 24 * time.Hour}); n != 2 || err != nil {
		t.Errorf("purgeable: %d, %v", n, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	for c.Purged().Jobs < 2 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond) // the table has no event for it
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var left string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(status || ' ' || coalesce(result ->> 'mergedIntoJobId', ''), ', ' ORDER BY status) FROM notifyworker.jobs`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if want := "COMPLETED 1, PENDING , RUNNING "; left != want {
		t.Errorf("left are %q, want %q", left, want)
	}
}
