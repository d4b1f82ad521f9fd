package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

func TestAcceptanceAndCompletionAreOneCommit(t *testing.T) {
	b := newBench(t)
	g := newGate()
	e := b.start(&fake{do: g.pass})
	j := b.job("c", `["p1", 2, "p3"]`)
	id, err := e.Submit(context.Background(), j)
	must(t, err)
	if c := g.wait(t); c.ID != id || c.JobID != j.ID || c.CatalogID != "c" || c.TraceID != "trace-c" || strings.Join(texts(c.ProductIDs), " ") != `"p1" 2 "p3"` {
		t.Errorf("recomputes %+v", c)
	}
	type job struct {
		Status, Result  string
		Token, Finished bool
	}
	var got job
	must(t, b.pool.QueryRow(context.Background(), `SELECT status, result::text, lock_token IS NOT NULL, finished_at IS NOT NULL AND duration_ms >= 0
		FROM notifyworker.jobs WHERE id = $1`, j.ID).Scan(&got.Status, &got.Result, &got.Token, &got.Finished))
	if want := (job{"COMPLETED", fmt.Sprintf(`{"products": 3, "refreshId": %d}`, id), false, true}); got != want {
		t.Errorf("job: got %+v, want %+v", got, want)
	}
	close(g.open)
	b.eventually(`SELECT status = 'DONE' AND lock_token IS NULL AND worker_id IS NULL AND recomputed = 3 AND done_count = 3 AND started_at IS NOT NULL
		FROM notifyworker.refreshes WHERE id = $1`, id)
}

func TestAConfigThatCannotBeReadIsNotTriedAgain(t *testing.T) {
	b := newBench(t)
	e := b.start(&fake{})
	j := b.job("c", `["p1"]`)
	j.Config = []byte(`{"catalogId": "c", "productIds": ["p1"], "full": "yes"}`)
	if out := e.Handle(context.Background(), j); out.Kind != queue.Permanent || !strings.Contains(out.Err.Error(), "full") {
		t.Errorf("got %v (%v), want permanent, and the key named", out.Kind, out.Err)
	}
}

func TestTheFourRefusals(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: g.pass}, func(c *engine.Config) {
		c.Refreshes, c.Queue, c.QueueWait = 2, 1, time.Millisecond
	})
	first, err := e.Submit(ctx, b.job("c", `["p1", "p2"]`))
	must(t, err)

	refused := func(j queue.Job, want error, by int64) {
		t.Helper()
		out := e.Handle(ctx, j)
		if out.Kind != queue.Refused || !errors.Is(out.Err, want) {
			t.Fatalf("got %v (%v), want a refusal: %v", out.Kind, out.Err, want)
		}
		if by != 0 && string(out.Result) != fmt.Sprintf(`{"refusedBy": %d}`, by) {
			t.Errorf("note %s does not name refresh %d", out.Result, by)
		}
		if s := b.status(j.ID); s != "RUNNING" {
			t.Errorf("a refused job is %s", s)
		}
	}
	refused(b.job("c", `["p3", "p2"]`), engine.ErrProductRefreshInFlight, first)
	refused(b.fullJob("c"), engine.ErrProductRefreshInFlight, first)

	full, err := e.Submit(ctx, b.fullJob("d"))
	must(t, err)
	refused(b.job("d", `["p9"]`), engine.ErrFullRefreshCatalogInFlight, full)
	refused(b.fullJob("d"), engine.ErrFullRefreshCatalogInFlight, full)
	if n := value[int](b, `SELECT refused FROM notifyworker.refreshes WHERE id = $1`, full); n != 2 {
		t.Errorf("refresh counts %d refusals, want 2", n)
	}

	if _, err := e.Submit(ctx, b.job("e", `["p1"]`)); err != nil { // same product, another catalog
		t.Fatal(err)
	}
	refused(b.job("f", `["p1"]`), engine.ErrQueueFull, 0)
	if s := e.Stats(); s.Refused["product_in_flight"] != 2 || s.Refused["full_in_flight"] != 2 || s.Refused["queue_full"] != 1 || s.Places != s.Capacity {
		t.Errorf("stats %+v", s)
	}
	late := b.job("g", `["p1"]`)
	close(g.open)
	must(t, e.stop())
	if out := e.Handle(ctx, late); out.Kind != queue.Released || !errors.Is(out.Err, engine.ErrRunnerStopped) {
		t.Errorf("at a shutdown: got %v (%v), want it released", out.Kind, out.Err)
	}
	if s := e.Stats(); s.Refused["stopped"] != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestVariantsOfAnArticleExcludeEachOther(t *testing.T) {
	for _, c := range []struct {
		busy, asked, function string
		refused               bool
	}{
		{`["85123A"]`, `["85123a"]`, "", true},
		{`["85123A"]`, `["85123"]`, "", true},
		{`[85123]`, `["85123XL"]`, "", true},
		{`["85123A"]`, `["85124A"]`, "", false},
		{`["POST"]`, `["POST2"]`, "", false},
		{`["15056BL-1"]`, `["15056BL-2"]`, "", false},
		{`["15056BL-1"]`, `["15056BL-2"]`, `"Shop's".article`, true}, // the user's: what stands before the dash
		{`["x"]`, `["y"]`, `"Shop's".article`, false},                // which is NULL here: articles of their own
		{`["x"]`, `["x"]`, `"Shop's".article`, true},
	} {
		t.Run(c.busy+c.asked+c.function, func(t *testing.T) {
			b := newBench(t)
			b.exec(`CREATE SCHEMA "Shop's"`)
			b.exec(`CREATE FUNCTION "Shop's".article(id text) RETURNS varchar LANGUAGE sql RETURN substring(id FROM '^(.*)-')`)
			g := newGate()
			e := b.start(&fake{do: g.pass}, func(cfg *engine.Config) { cfg.ArticleFunction = c.function })
			defer close(g.open)
			must(t, e.Check(context.Background()))
			_, err := e.Submit(context.Background(), b.job("c", c.busy))
			must(t, err)
			if _, err = e.Submit(context.Background(), b.job("c", c.asked)); errors.Is(err, engine.ErrProductRefreshInFlight) != c.refused {
				t.Errorf("refused: %v, want %v", err, c.refused)
			}
		})
	}
}

func TestAJobWithoutIDsIsDoneAtOnce(t *testing.T) {
	b := newBench(t)
	e := b.start(&fake{})
	j := b.job("c", `[]`)
	if out := e.Handle(context.Background(), j); out.Kind != queue.Concluded {
		t.Fatalf("got %v: %v", out.Kind, out.Err)
	}
	if n := value[int](b, `SELECT count(*) FROM notifyworker.refreshes`); b.status(j.ID) != "COMPLETED" || n != 0 {
		t.Errorf("job is %s, %d refreshes", b.status(j.ID), n)
	}
}

func TestALostJobIsNotAccepted(t *testing.T) {
	b := newBench(t)
	e := b.start(&fake{})
	j := b.job("c", `["p1"]`)
	b.exec(`SELECT notifyworker.cancel($1)`, j.ID)
	if out := e.Handle(context.Background(), j); out.Kind != queue.Lost {
		t.Errorf("got %v: %v", out.Kind, out.Err)
	}
	if s := e.Stats(); s.Places != 0 {
		t.Errorf("%d places are still taken", s.Places)
	}
}

// The role's isolation level would hide what was admitted after the snapshot: admission does not rely on it.
func TestAdmissionWhateverTheRolesIsolation(t *testing.T) {
	b := newBench(t)
	cfg := b.pool.Config().Copy()
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	fn, err := engine.NewSQLFunction(engine.SQLFunctionConfig{Name: "recompute", Pool: b.withShop(), SameDatabase: true})
	must(t, err)
	e := b.start(fn, func(c *engine.Config) { c.Pool = pool })
	id, err := e.Submit(context.Background(), b.job("c", `["p1"]`))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE id = $1`, id)
}

// Poolers want other protocols than prepared statements.
func TestEveryProtocol(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		both(t, func(t *testing.T, same bool) {
			b := newBench(t)
			with := func(p *pgxpool.Pool) *pgxpool.Pool {
				cfg := p.Config().Copy()
				cfg.ConnConfig.DefaultQueryExecMode = mode
				pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
				must(t, err)
				t.Cleanup(pool.Close)
				return pool
			}
			shop := with(b.withShop())
			b.exec(`INSERT INTO shop.poison VALUES ('p2', '22000');
				CREATE FUNCTION shop.products(c text) RETURNS SETOF text LANGUAGE sql RETURN 'p5'::text`)
			fn := b.sqlFunction(engine.SQLFunctionConfig{Name: "recompute", Pool: shop, SameDatabase: same})
			g := newGate()
			change := func(c *engine.Config) {
				c.Pool, c.Chunk, c.Lease = with(b.pool), 2, short
				c.ArticleFunction = "notifyworker.article_of"
				c.Products = &engine.SQLProducts{Name: "shop.products", Pool: shop}
			}
			e := b.start(fn, change)
			must(t, e.Check(context.Background()))
			_, err := e.Submit(context.Background(), b.job("c", `["p1", "p2", "ü'\"", 4]`))
			must(t, err)
			_, err = e.Submit(context.Background(), b.fullJob("d"))
			must(t, err)
			if l := b.letter(); strings.Join(l.IDs, " ") != `"p2"` {
				t.Errorf("dead letter %+v", l)
			}
			slow := b.start(&fake{do: g.pass}, change)
			_, err = slow.Submit(context.Background(), b.job("c", `["p1"]`))
			must(t, err)
			before := value[time.Time](b, `SELECT max(lease_expires_at) FROM notifyworker.refreshes`)
			b.eventually(`SELECT max(lease_expires_at) > $1 FROM notifyworker.refreshes`, before)
			if out := slow.Handle(context.Background(), b.job("c", `["p1"]`)); out.Kind != queue.Refused {
				t.Errorf("got %v: %v", out.Kind, out.Err)
			}
			// A heartbeat may come between the two.
			waitFor(t, func() bool {
				expire(b)
				n, err := e.TakeOver(context.Background())
				must(t, err)
				return n > 0
			})
			b.eventually(`SELECT NOT EXISTS (SELECT FROM notifyworker.refreshes WHERE status = 'ACTIVE')`)
			close(g.open)
		})
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	b := newBench(t)
	b.exec(`SELECT pg_backend_pid()`) // the pool's own goroutines are there
	before := goleak.IgnoreCurrent()
	g := newGate()
	e := b.start(&fake{do: g.pass}, func(c *engine.Config) { c.DrainTimeout = time.Millisecond })
	_, err := e.Submit(context.Background(), b.job("c", `["p1"]`))
	must(t, err)
	g.wait(t)
	must(t, e.stop())
	if err := e.Run(context.Background()); err == nil {
		t.Error("Run ran twice")
	}
	goleak.VerifyNone(t, before)
}

func TestAnySchemaName(t *testing.T) {
	b := newBench(t, pgtest.Schema("Prix-2"))
	e := b.start(&fake{})
	b.exec(`SELECT "Prix-2".enqueue_price_refresh('c', '["p1"]')`)
	id, err := e.Submit(context.Background(), b.reserve())
	must(t, err)
	b.eventually(`SELECT status = 'DONE' FROM "Prix-2".refreshes WHERE id = $1`, id)
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	_, err := engine.New(engine.Config{Refreshes: -1, Chunk: 1 << 20, Lease: time.Millisecond, DrainTimeout: -1, Patience: engine.Patience{Cap: -1}})
	for _, want := range []string{"Pool", "WorkerID", "recomputation", "refreshes is -1", "chunk is", "lease is 1ms", "drain_timeout", "delay cap"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}
