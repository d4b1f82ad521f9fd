package engine_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/engine"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestAFullRefreshIsOneCall(t *testing.T) {
	b := newBench(t)
	r := &fake{}
	e := b.start(r)
	id, err := e.Submit(context.Background(), b.fullJob("c"))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' AND scope = 'FULL' FROM notifyworker.refreshes WHERE id = $1`, id)
	if got := r.called(); len(got) != 1 || !got[0].Full || got[0].ProductIDs != nil {
		t.Errorf("called with %+v", got)
	}
}

func TestAFullRefreshThatFailsIsADeadLetterForTheWholeCatalog(t *testing.T) {
	b := newBench(t)
	e := b.start(&fake{do: func(context.Context, engine.Chunk) error { return sqlError("22000") }})
	_, err := e.Submit(context.Background(), b.fullJob("c"))
	must(t, err)
	if l := b.letter(); !l.Full || len(l.IDs) != 0 || !strings.HasPrefix(l.Error, "the catalog could not be recomputed: ") {
		t.Errorf("dead letter %+v", l)
	}
	waitFor(t, func() bool { return e.Stats().Places == 0 }) // its run has ended
	if s := e.Stats(); s.Released != 1 || s.Lost != 0 {
		t.Errorf("what is given up is released, not lost: %+v", s)
	}
}

// Nobody here knows the ids of a catalog that was not listed, so those that the recomputation names as failed are taken from it.
func TestWhatFailsOfAWholeCatalogIsInTheDeadLetter(t *testing.T) {
	const answer = `{"recomputed": 40, "failed": [{"id": "p2", "error": "no rule"}, {"id": "p2"}, {"id": 9007199254740993}]}`
	for _, kind := range []string{"HTTP", "SQL", "SQL in another database"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			shop := b.withShop()
			b.exec(`CREATE FUNCTION shop.some(c text, ids jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '` + answer + `'::jsonb $$`)
			var r engine.Recomputer = serve(t, func(w http.ResponseWriter, _ int, _ received) { _, _ = io.WriteString(w, answer) })
			if kind != "HTTP" {
				r = b.sqlFunction(engine.SQLFunctionConfig{Name: "some", Pool: shop, SameDatabase: kind == "SQL"})
			}
			_, err := b.start(r).Submit(context.Background(), b.fullJob("c"))
			must(t, err)
			l := b.letter()
			if l.Full || strings.Join(l.IDs, " ") != `"p2" 9007199254740993` || l.Failed[0].Error != "no rule" || l.Failed[1].Error != "no reason given" ||
				l.Error != "2 products of the catalog could not be recomputed; the first, p2: no rule" {
				t.Errorf("dead letter %+v", l)
			}
			if !value[bool](b, `SELECT status = 'DONE_WITH_ERRORS' AND recomputed = 40 AND failed_count = 2 FROM notifyworker.refreshes`) {
				t.Error("the refresh does not say so")
			}
		})
	}
}

// The sessions' limits are for statements of ours. The function has its own, which the server keeps.
func TestAProductsFunctionHasTheRecomputationsTimeLimit(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	b.exec(`CREATE TABLE locked (id text);
		CREATE FUNCTION slow(catalog text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT pg_sleep(catalog::float)::text; SELECT unnest(ARRAY['p1', 'p1', 'p2']) $$;
		CREATE FUNCTION waits(catalog text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT id FROM locked $$`)
	cfg := b.pool.Config().Copy()
	cfg.ConnConfig.RuntimeParams["statement_timeout"], cfg.ConnConfig.RuntimeParams["lock_timeout"] = "200ms", "50ms"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	list := engine.SQLProducts{Name: "slow", Pool: pool}
	if ids, err := list.List(ctx, "", "0.5"); err != nil || strings.Join(texts(ids), " ") != `"p1" "p2"` {
		t.Errorf("in more time than the session has: %s, %v", texts(ids), err)
	}
	list.Timeout = 100 * time.Millisecond
	if _, err := list.List(ctx, "", "3600"); err == nil || !strings.Contains(err.Error(), "statement timeout") {
		t.Errorf("in an hour: %v", err)
	}
	list = engine.SQLProducts{Name: "waits", Pool: pool}
	holder := b.begin(`LOCK TABLE locked`)
	listed := make(chan error, 1)
	go func() { _, err := list.List(ctx, "", "c"); listed <- err }()
	waitFor(t, func() bool {
		select {
		case err := <-listed:
			t.Fatalf("behind a lock: %v", err)
		default:
		}
		return value[bool](b, `SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '100 ms'
			AND datname = current_database()`)
	})
	must(t, holder.Rollback(ctx))
	must(t, <-listed)
}

func TestAListedFullRefreshRunsInChunks(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	shop := b.withShop()
	b.exec(`CREATE FUNCTION shop.products(catalog text) RETURNS SETOF text LANGUAGE sql RETURN unnest(ARRAY['p1', 'p2', 'p3', 'p2', NULL]);
		CREATE FUNCTION shop.none(catalog text) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE false';
		CREATE FUNCTION shop.broken(catalog text) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1 / (length($1) - length($1))'`)
	list := func(name string) func(*engine.Config) {
		return func(c *engine.Config) { c.Chunk, c.Products = 2, &engine.SQLProducts{Name: name, Pool: shop} }
	}
	r := &fake{do: poison(sqlError("22000"), `"p3"`)}
	e := b.start(r, list("products"))
	must(t, e.Check(ctx))
	b.exec(`SELECT notifyworker.enqueue_price_refresh('c', '["p9", "p1"]')`)
	_, err := e.Submit(ctx, b.fullJob("c"))
	must(t, err)
	if l := b.letter(); l.Full || strings.Join(l.IDs, " ") != `"p3"` {
		t.Errorf("dead letter %+v", l)
	}
	if !value[bool](b, `SELECT product_ids = '["p9", "p1", "p2", "p3"]' AND listed AND recomputed = 3 FROM notifyworker.refreshes`) {
		t.Error("not what the job named, then the catalog: " + value[string](b, `SELECT product_ids::text FROM notifyworker.refreshes`))
	}

	id, err := b.start(&fake{}, list("none")).Submit(ctx, b.fullJob("d"))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' AND product_count = 0 FROM notifyworker.refreshes WHERE id = $1`, id)

	id, err = b.start(&fake{}, list("broken")).Submit(ctx, b.fullJob("e"))
	must(t, err)
	b.eventually(`SELECT status = 'DONE_WITH_ERRORS' AND NOT listed FROM notifyworker.refreshes WHERE id = $1`, id)
	if !value[bool](b, `SELECT config = '{"catalogId": "e", "productIds": [], "full": true}' FROM notifyworker.jobs WHERE status = 'FAILED' AND catalog_id = 'e'`) {
		t.Error("no dead letter for the catalog that could not be listed")
	}
}
