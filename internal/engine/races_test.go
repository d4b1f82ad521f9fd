package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

func TestALockedJobRowIsWaitedFor(t *testing.T) {
	b := newBench(t)
	e := b.start(&fake{})
	j := b.job("c", `["p1"]`)
	psql := b.db.Conn(t)
	ctx := context.Background()
	_, err := psql.Exec(ctx, `BEGIN; SELECT FROM notifyworker.jobs FOR UPDATE`)
	must(t, err)
	got := make(chan error, 1)
	go func() { _, err := e.Submit(ctx, j); got <- err }()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	_, err = psql.Exec(ctx, `COMMIT`)
	must(t, err)
	must(t, <-got)
}

// A person who looks into a refresh's row FOR UPDATE holds up nobody but that refresh.
func TestALockedRefreshRowHoldsUpNoAdmission(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: g.pass})
	defer close(g.open)
	_, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	psql := b.db.Conn(t)
	_, err = psql.Exec(ctx, `BEGIN; SELECT FROM notifyworker.refreshes FOR UPDATE`)
	must(t, err)
	if _, err := e.Submit(ctx, b.job("c", `["p1"]`)); !errors.Is(err, engine.ErrProductRefreshInFlight) {
		t.Errorf("got %v", err)
	}
	_, err = e.Submit(ctx, b.job("c", `["p2"]`))
	must(t, err)
}

// What was in the way may end while the refusal is being written down: then it is no refusal.
func TestARefusalThatMeetsTheReleaseIsNone(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	e := b.start(&fake{})
	var id int64
	var token string
	old := b.job("c", `["p1"]`)
	must(t, b.pool.QueryRow(ctx, `SELECT refresh_id, refresh_token FROM notifyworker.admit_refresh($1, $2, $3, 60000)`, old.ID, old.Token, workerB).Scan(&id, &token))
	j := b.job("c", `["p1"]`)
	release, err := b.db.Conn(t).Begin(ctx)
	must(t, err)
	_, err = release.Exec(ctx, `SELECT notifyworker.release_refresh($1, $2)`, id, token)
	must(t, err)
	got := make(chan error, 1)
	go func() { _, err := e.Submit(ctx, j); got <- err }()
	b.eventually(`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
	must(t, release.Commit(ctx))
	must(t, <-got)
}

// Twenty submitters on four engines, each with a pool of its own, as on four pods: at no moment two active refreshes of one
// catalog have an article in common, and no id is lost.
func TestConcurrentSubmitsNeverOverlap(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	var mu sync.Mutex
	busy, done := map[string]int64{}, map[string]bool{}
	r := &fake{do: func(_ context.Context, c engine.Chunk) error {
		mu.Lock()
		for _, id := range c.ProductIDs {
			if other := busy[string(id)]; other != 0 {
				t.Errorf("refreshes %d and %d both recompute %s", other, c.ID, id)
			}
			busy[string(id)] = c.ID
		}
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		for _, id := range c.ProductIDs {
			delete(busy, string(id))
			done[string(id)] = true
		}
		return nil
	}}
	var engines []running
	for range 4 {
		engines = append(engines, b.start(r, func(c *engine.Config) { c.Pool = b.db.Pool(t) }))
	}
	watch, stopWatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for watch.Err() == nil {
			if n := value[int](b, `SELECT count(*) FROM notifyworker.refreshes a JOIN notifyworker.refreshes b ON a.id < b.id AND a.article_ids && b.article_ids
				WHERE a.status = 'ACTIVE' AND b.status = 'ACTIVE' AND a.catalog_id = b.catalog_id`); n > 0 {
				t.Errorf("%d pairs of active refreshes overlap", n)
			}
		}
	})
	want := map[string]bool{}
	var wg sync.WaitGroup
	var accepted, refused int64
	for i := range 20 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		store := b.store() // reserving is for one goroutine
		wg.Go(func() {
			for k := range 15 {
				var list []string
				for range 1 + rng.IntN(4) {
					list = append(list, fmt.Sprintf(`"p%d"`, rng.IntN(40)))
				}
				b.exec(`SELECT notifyworker.enqueue_price_refresh('c', $1::text::jsonb)`, "["+strings.Join(list, ",")+"]")
				mu.Lock()
				for _, id := range list {
					want[id] = true
				}
				mu.Unlock()
				res, err := store.Reserve(ctx, 2)
				if err != nil {
					t.Error(err)
					return
				}
				for _, j := range res.Jobs {
					out := engines[(i+k)%4].Handle(ctx, j)
					mu.Lock()
					if out.Kind == queue.Concluded {
						accepted++
					} else {
						refused++
					}
					mu.Unlock()
					if out.Kind == queue.Refused {
						for v := queue.Busy; v == queue.Busy; {
							got, err := b.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: out.Err.Error(), Note: out.Result})
							if err != nil {
								t.Error(err)
								return
							}
							v = got.Verdict
						}
					} else if out.Kind != queue.Concluded {
						t.Errorf("got %v: %v", out.Kind, out.Err)
					}
				}
			}
		})
	}
	wg.Wait()
	for end := time.Now().Add(soon); value[bool](b, `SELECT EXISTS (SELECT FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING'))
		OR EXISTS (SELECT FROM notifyworker.job_additions)`); {
		if time.Now().After(end) {
			t.Fatal("jobs are left")
		}
		res, err := b.Reserve(ctx, 10)
		must(t, err)
		for _, j := range res.Jobs {
			if out := engines[0].Handle(ctx, j); out.Kind == queue.Refused {
				_, err := b.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused, Err: out.Err.Error(), Note: out.Result})
				must(t, err)
			}
		}
	}
	stopWatch()
	watcher.Wait()
	b.eventually(`SELECT NOT EXISTS (SELECT FROM notifyworker.refreshes WHERE status <> 'DONE')`)
	t.Logf("%d accepted, %d refused", accepted, refused)
	if refused == 0 {
		t.Error("no submission was refused: the sets did not meet")
	}
	mu.Lock()
	defer mu.Unlock()
	for id := range want {
		if !done[id] {
			t.Errorf("%s was not recomputed", id)
		}
	}
	b.db.NoServerErrors(t)
}

func TestFiftyThousandProducts(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: g.pass}, func(c *engine.Config) { c.Chunk = 10_000 })
	const n = 50_000
	id, err := e.Submit(ctx, b.job("c", ids(0, n)))
	must(t, err)
	other := b.job("c", ids(n, n)) // nothing in common: every article is compared
	began := time.Now()
	_, err = e.Submit(ctx, other)
	must(t, err)
	if took := time.Since(began); took > soon {
		t.Errorf("admission beside 50,000 products took %v", took)
	} else {
		t.Logf("admission beside 50,000 products took %v", took)
	}
	if _, err := e.Submit(ctx, b.job("c", ids(2*n-1, n))); !errors.Is(err, engine.ErrProductRefreshInFlight) {
		t.Errorf("one product of 50,000 in common: %v", err)
	}
	close(g.open)
	b.eventually(`SELECT status = 'DONE' AND done_count = 50000 AND recomputed = 50000 FROM notifyworker.refreshes WHERE id = $1`, id)
}

// Two jobs are about to be refused because of a refresh that is just being released: one of them is accepted then, the other
// is refused because of that one, and they don't wait for each other.
func TestTwoRefusalsMeetARelease(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	one, two := b.db.Conn(t), b.db.Conn(t)
	const admit = `SELECT outcome, coalesce(refresh_id, 0) FROM notifyworker.admit_refresh($1, $2, $3, 60000)`
	type answer struct {
		outcome string
		id      int64
		err     error
	}
	for try := range 50 {
		catalog := fmt.Sprint("c", try)
		var id int64
		var token string
		old := b.job(catalog, `["p1"]`)
		must(t, b.pool.QueryRow(ctx, `SELECT refresh_id, refresh_token FROM notifyworker.admit_refresh($1, $2, $3, 60000)`, old.ID, old.Token, workerB).Scan(&id, &token))
		jobs := []queue.Job{b.job(catalog, `["p1"]`), b.job(catalog, `["p1"]`)}
		release, err := b.pool.Begin(ctx)
		must(t, err)
		_, err = release.Exec(ctx, `SELECT notifyworker.release_refresh($1, $2)`, id, token)
		must(t, err)
		began := time.Now()
		answers := make(chan answer, 2)
		for i, conn := range []*pgx.Conn{one, two} {
			go func() {
				var a answer
				a.err = conn.QueryRow(ctx, admit, jobs[i].ID, jobs[i].Token, workerA).Scan(&a.outcome, &a.id)
				answers <- a
			}()
		}
		b.eventually(`SELECT count(*) = 2 OR clock_timestamp() > $1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid IN ($2, $3)`,
			began.Add(250*time.Millisecond), one.PgConn().PID(), two.PgConn().PID())
		must(t, release.Commit(ctx))
		intime := time.Since(began) < 200*time.Millisecond
		got := []answer{<-answers, <-answers}
		if got[0].outcome != "accepted" {
			got[0], got[1] = got[1], got[0]
		}
		must(t, errors.Join(got[0].err, got[1].err))
		if !intime { // the refusals were allowed to give up
			continue
		}
		if got[0].outcome != "accepted" || got[1].outcome != "product_in_flight" || got[1].id != got[0].id {
			t.Fatalf("try %d: got %+v", try, got)
		}
		return
	}
	t.Fatal("the two never met the release in time")
}
