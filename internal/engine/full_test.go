package engine_test

import (
	"context"
	"strings"
	"testing"

	"notifyworker/internal/engine"
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
