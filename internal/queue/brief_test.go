package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
)

func (tb table) reserveBriefly(n int) queue.Reservation {
	tb.t.Helper()
	r, err := tb.ReserveBriefly(context.Background(), n)
	if err != nil {
		tb.t.Fatal(err)
	}
	return r
}

func TestABriefLookSaysNothingOfWhatComesNext(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('now'), notifyworker.enqueue_job('later', delay => '1 h')`)
	if r := tb.reserveBriefly(3); len(r.Jobs) != 1 || r.Jobs[0].Type != "now" || !r.Brief {
		t.Fatalf("got %+v", r)
	}
	if r := tb.reserveBriefly(3); len(r.Jobs) != 0 || r.Brief || r.NextDue <= 0 || r.NextLease <= 0 {
		t.Fatalf("with nothing to have it is a whole look; got %+v", r)
	}
	tb.exec(`SELECT notifyworker.enqueue_job('now') FROM generate_series(1, 3)`)
	if r := tb.reserveBriefly(2); len(r.Jobs) != 2 || r.Brief {
		t.Fatalf("as many as were asked for is not brief; got %+v", r)
	}
}

func TestABriefLookMayLeaveWhatOthersHoldAndWhatIsMarked(t *testing.T) {
	tb := newTable(t)
	held := value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('held')`)
	letGo := tb.lockJobs()
	defer letGo()
	tb.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.enqueue_price_refresh('marked', '["p"]'); COMMIT`)
	tb.exec(`SELECT notifyworker.enqueue_job('free')`)
	if r := tb.reserveBriefly(5); len(r.Jobs) != 1 || r.Jobs[0].Type != "free" || !r.Brief {
		t.Fatalf("got %+v", r)
	}
	if r := tb.reserve(5); len(r.Jobs) != 1 || r.Jobs[0].CatalogID != "marked" || r.NextDue > 0 {
		t.Fatalf("the whole look after it: got %+v", r)
	}
	letGo()
	if r := tb.reserveBriefly(5); len(r.Jobs) != 1 || r.Jobs[0].ID != held {
		t.Fatalf("got %+v", r)
	}
}

// Among jobs that can be taken as they are, what has to be folded is not left to the next look.
func TestABriefLookThatCannotHaveAllIsAWholeOne(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('plain'), notifyworker.enqueue_price_refresh('joined', '["a"]'), notifyworker.enqueue_price_refresh('joined', '["b"]'),
		notifyworker.enqueue_price_refresh('alone', '["a", "b"]')`)
	r := tb.reserveBriefly(5)
	if len(r.Jobs) != 3 || r.Brief {
		t.Fatalf("got %+v", r)
	}
	for _, j := range r.Jobs {
		if j.CatalogID != "" && (j.ProductCount != 2 || j.Attempt != 1) {
			t.Errorf("got %+v", j)
		}
	}
	tb.exec(`SELECT notifyworker.enqueue_job('plain'), notifyworker.enqueue_price_refresh('more', '["a"]'), notifyworker.enqueue_price_refresh('more', '["b"]')`)
	if r := tb.reserveBriefly(1); len(r.Jobs) != 1 || r.Jobs[0].Type != "plain" {
		t.Errorf("no more than was asked for: got %+v", r)
	}
}

func TestABriefLookStartsWhereItIsToldTo(t *testing.T) {
	tb := newTable(t)
	early := value[int64](tb, `INSERT INTO notifyworker.jobs (type, run_after) VALUES ('early', now() - interval '1 h') RETURNING id`)
	late := value[int64](tb, `INSERT INTO notifyworker.jobs (type) VALUES ('late') RETURNING id`)
	const look = `SELECT coalesce(array_agg(id), '{}') FROM notifyworker.reserve(5, $1, 60000, p_from => now() - interval '1 min', p_brief => true)`
	if got := value[[]int64](tb, look, workerA); !slices.Equal(got, []int64{late}) {
		t.Errorf("got %d, want %d and not %d", got, late, early)
	}
}

// A price refresh that nothing joins is reserved as it is, like any job; every other one goes the long way.
func TestWhatIsNotAsItWasEnqueuedIsFolded(t *testing.T) {
	for name, c := range map[string]struct {
		setup, want string
		brief       bool
	}{
		"alone":           {`SELECT notifyworker.enqueue_price_refresh('c', '["a", 1, "1"]')`, `["a", 1, "1"]`, true},
		"without ids":     {`SELECT notifyworker.enqueue_price_refresh('c', '[]')`, `[]`, true},
		"joined":          {`SELECT notifyworker.enqueue_price_refresh('c', '["a"]'); SELECT notifyworker.enqueue_price_refresh('c', '["b"]')`, `["a", "b"]`, false},
		"an id twice":     {`INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": ["a", "b", "a"]}')`, `["a", "b"]`, false},
		"above the bound": {`SELECT notifyworker.enqueue_price_refresh('c', '["a", "b", "c", "d"]')`, `["a", "b", "c"]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, func(c *queue.Config) { c.MaxIDs = 3 })
			tb.exec(c.setup)
			r := tb.reserveBriefly(5)
			if len(r.Jobs) != 1 || r.Brief != c.brief {
				t.Fatalf("got %+v", r)
			}
			j := r.Jobs[0]
			if got := value[string](tb, `SELECT config -> 'productIds' FROM notifyworker.jobs WHERE id = $1`, j.ID); got != c.want {
				t.Errorf("the job has the ids %s, want %s", got, c.want)
			}
			if got := value[string](tb, `SELECT ($1::jsonb -> 'productIds')::text`, string(j.Config)); got != c.want {
				t.Errorf("the worker was given %s, want %s", got, c.want)
			}
			if j.Attempt != 1 || j.Token == "" || j.LeaseUntil.IsZero() {
				t.Errorf("got %+v", j)
			}
		})
	}
}

func TestASuccessorIsNeverReservedAsItIs(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type, config, successor) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": []}', true)`)
	if r := tb.reserveBriefly(5); len(r.Jobs) != 0 || r.Poisoned != nil {
		t.Fatalf("got %+v", r)
	}
	if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs`); n != 0 {
		t.Error("nobody waits for the successor, and yet it is there")
	}
}

func TestABriefLookPassesOverAJobThatCannotBeReserved(t *testing.T) {
	tb := newTable(t)
	tb.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (NEW.type = 'bad') EXECUTE FUNCTION refuse()`)
	tb.exec(`SELECT notifyworker.enqueue_job('bad'), notifyworker.enqueue_job('good')`)
	r := tb.reserveBriefly(5)
	if types := slices.Collect(func(yield func(string) bool) {
		for _, j := range r.Jobs {
			if !yield(j.Type) {
				return
			}
		}
	}); !slices.Equal(types, []string{"good"}) || r.Poisoned == nil || r.Brief {
		t.Fatalf("got %+v", r)
	}
}

// Who was just told of a job doesn't ask first whether an idle connection still lives; and when it does not, another one is had.
func TestABriefLookDoesNotPing(t *testing.T) {
	var sent queue.Sent
	db := pgtest.DB(t)
	pool, err := queue.OpenCountedPool(t.Context(), db.URL, "brief", 2, &sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := queue.New(queue.Config{DB: pool, WorkerID: workerA})
	if err != nil {
		t.Fatal(err)
	}
	tb := table{Store: store, pool: db.Pool(t), t: t}
	idle := func(reserve func(context.Context, int) (queue.Reservation, error)) (queue.Reservation, uint64) {
		t.Helper()
		if _, err := store.Reserve(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		tb.exec(`SELECT notifyworker.enqueue_job('told')`)
		<-time.After(1100 * time.Millisecond) // so long it has to be idle, by the clock of the machine
		before := sent.Pings()
		r, err := reserve(t.Context(), 1)
		if err != nil || len(r.Jobs) != 1 {
			t.Fatalf("got %+v, %v", r, err)
		}
		return r, sent.Pings() - before
	}
	if _, n := idle(store.Reserve); n != 1 {
		t.Errorf("a whole look pinged %d times, want once", n)
	}
	if _, n := idle(store.ReserveBriefly); n != 0 {
		t.Errorf("a brief look pinged %d times", n)
	}
	idle(func(ctx context.Context, n int) (queue.Reservation, error) {
		tb.exec(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'brief'`)
		return store.ReserveBriefly(ctx, n)
	})
}
