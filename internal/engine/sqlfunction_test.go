package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/webcall"
)

// both runs a test with the progress in the recomputation's transaction, and without.
func both(t *testing.T, test func(t *testing.T, same bool)) {
	t.Helper()
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprintf("same database %v", same), func(t *testing.T) { test(t, same) })
	}
}

func (b bench) sqlFunction(cfg engine.SQLFunctionConfig) *engine.SQLFunction {
	b.t.Helper()
	f, err := engine.NewSQLFunction(cfg)
	must(b.t, err)
	return f
}

func TestASQLFunctionGetsIDsAsTheyAre(t *testing.T) {
	both(t, func(t *testing.T, same bool) {
		b := newBench(t)
		e := b.start(b.sqlFunction(engine.SQLFunctionConfig{Name: "recompute", Pool: b.withShop(), SameDatabase: same}), func(c *engine.Config) { c.Chunk = 3 })
		_, err := e.Submit(context.Background(), b.job("c", `["p1", 9007199254740993, "9007199254740993", 1e400, "ü\"\\ "]`))
		must(t, err)
		b.eventually(`SELECT status = 'DONE' AND recomputed = 5 FROM notifyworker.refreshes`)
		got := value[string](b, `SELECT string_agg(type || ' ' || left(product, 20), ', ' ORDER BY type, product COLLATE "C") FROM shop.prices WHERE runs = 1`)
		if want := `number 10000000000000000000, number 9007199254740993, string 9007199254740993, string p1, string ü"\ `; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestShapesOfASQLFunction(t *testing.T) {
	both(t, func(t *testing.T, same bool) {
		b := newBench(t)
		shop := b.withShop()
		b.exec(`CREATE TABLE shop.seen (what text);
			CREATE FUNCTION shop.tenant(t uuid, c text, ids jsonb) RETURNS numeric LANGUAGE sql AS $$ INSERT INTO shop.seen VALUES (t || c || ids) RETURNING 7.0 $$;
			CREATE FUNCTION shop.texts(c text, ids text[]) RETURNS void LANGUAGE sql AS $$ INSERT INTO shop.seen VALUES (c || ids::text) $$;
			CREATE FUNCTION shop."Says More"(c text, ids jsonb) RETURNS jsonb LANGUAGE sql RETURN
				'{"recomputed": 40, "failed": [{"id": "p2", "error": "no rule"}, {"id": "p2"}, {"id": "2"}]}'::jsonb;
			CREATE FUNCTION shop.says_nothing(c text, ids jsonb) RETURNS json LANGUAGE sql RETURN NULL::json;`)
		run := func(name, ids string) int64 {
			t.Helper()
			fn := b.sqlFunction(engine.SQLFunctionConfig{Name: name, Pool: shop, SameDatabase: same})
			must(t, fn.Check(context.Background()))
			id, err := b.start(fn).Submit(context.Background(), b.job(name, ids))
			must(t, err)
			b.eventually(`SELECT status <> 'ACTIVE' FROM notifyworker.refreshes WHERE id = $1`, id)
			return id
		}
		recomputed := func(id int64) int {
			return value[int](b, `SELECT recomputed FROM notifyworker.refreshes WHERE id = $1`, id)
		}
		if n := recomputed(run("shop.tenant", `["p1"]`)); n != 7 {
			t.Errorf("numeric: %d recomputed, want 7", n)
		}
		if n := recomputed(run("texts", `["p1", 2]`)); n != 2 {
			t.Errorf("void: %d recomputed, want 2", n)
		}
		if n := recomputed(run("says_nothing", `["p1", 2, 3]`)); n != 3 {
			t.Errorf("NULL: %d recomputed, want 3", n)
		}
		if got := value[string](b, `SELECT string_agg(what, ' ' ORDER BY what) FROM shop.seen`); got != `00000000-0000-0000-0000-000000000000shop.tenant["p1"] texts{p1,2}` {
			t.Errorf("called with %s", got)
		}
		id := run(`shop."Says More"`, `["p1", "p2", 2]`)
		if got := value[string](b, `SELECT recomputed || failed::text FROM notifyworker.refreshes WHERE id = $1`, id); got != `40[{"id": "p2", "error": "no rule"}, {"id": 2, "error": "no reason given"}]` {
			t.Errorf("json: %s", got)
		}
		if l := b.letter(); strings.Join(l.IDs, " ") != `"p2" 2` {
			t.Errorf("dead letter %+v", l)
		}
	})
}

func TestPoisonInASQLFunction(t *testing.T) {
	both(t, func(t *testing.T, same bool) {
		b := newBench(t)
		shop := b.withShop()
		b.exec(`INSERT INTO shop.poison VALUES ('p7', '22012'), ('p300', 'P0002')`)
		e := b.start(b.sqlFunction(engine.SQLFunctionConfig{Name: "shop.recompute", Pool: shop, SameDatabase: same}))
		_, err := e.Submit(context.Background(), b.job("c", ids(0, 700)))
		must(t, err)
		l := b.letter()
		if strings.Join(l.IDs, " ") != `"p7" "p300"` || !strings.Contains(l.Failed[0].Error, "no rule for p7") {
			t.Errorf("dead letter %+v", l)
		}
		if n := value[int](b, `SELECT count(*) FROM shop.prices`); n != 698 {
			t.Errorf("%d prices, want 698", n)
		}
	})
}

func TestATimeLimitIsKeptByTheServer(t *testing.T) {
	b := newBench(t)
	shop := b.withShop()
	b.exec(`CREATE FUNCTION shop.sleepy(c text, ids jsonb) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN IF ids @> '["p3"]' THEN PERFORM pg_sleep(3600); END IF; RETURN jsonb_array_length(ids); END $$`)
	e := b.start(b.sqlFunction(engine.SQLFunctionConfig{Name: "sleepy", Pool: shop, SameDatabase: true, Timeout: 500 * time.Millisecond}))
	_, err := e.Submit(context.Background(), b.job("c", ids(0, 4)))
	must(t, err)
	if l := b.letter(); strings.Join(l.IDs, " ") != `"p3"` || !strings.Contains(l.Error, "statement timeout") {
		t.Errorf("dead letter %+v", l)
	}
}

func TestNotNowFromASQLFunction(t *testing.T) {
	b := newBench(t)
	shop := b.withShop()
	b.exec(`CREATE SEQUENCE shop.tries;
		CREATE FUNCTION shop.busy(c text, ids jsonb) RETURNS int LANGUAGE plpgsql AS $$
		BEGIN IF nextval('shop.tries') <= 10 THEN RAISE EXCEPTION 'month end' USING ERRCODE = 'NW429', DETAIL = '0.001'; END IF; RETURN 1; END $$`)
	e := b.start(b.sqlFunction(engine.SQLFunctionConfig{Name: "busy", Pool: shop, SameDatabase: true}))
	_, err := e.Submit(context.Background(), b.job("c", ids(0, 8)))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes`)
}

func TestAFunctionThatIsReplacedByOneOfAnotherShape(t *testing.T) {
	b := newBench(t)
	shop := b.withShop()
	e := b.start(b.sqlFunction(engine.SQLFunctionConfig{Name: "recompute", Pool: shop, SameDatabase: true}))
	first, err := e.Submit(context.Background(), b.job("c", `["p1"]`))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE id = $1`, first)
	b.exec(`DROP FUNCTION shop.recompute; CREATE FUNCTION shop.recompute(c text, ids text[]) RETURNS int LANGUAGE sql RETURN 1`)
	second, err := e.Submit(context.Background(), b.job("c", `["p1"]`))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes WHERE id = $1`, second)
}

func TestCheckSaysWhatIsWrongWithFunctions(t *testing.T) {
	b := newBench(t)
	shop := b.withShop()
	b.exec(`CREATE FUNCTION shop.wrong(c text, ids jsonb) RETURNS text LANGUAGE sql RETURN 'x';
		CREATE FUNCTION shop.one(c text) RETURNS text LANGUAGE sql RETURN 'x'`)
	for _, c := range []struct{ recompute, article, products, want string }{
		{"missing", "", "", "there is no function missing(uuid, text, jsonb) or missing(text, jsonb) or missing(text, text[])"},
		{"shop.wrong", "", "", "shop.wrong(text, jsonb) returns text, it must return int2, int4, int8, numeric, jsonb, json or void"},
		{"recompute'); DROP TABLE shop.prices; --", "", "", "recomputation"},
		{"recompute", "nope", "", "article function: there is no function nope(text)"},
		{"recompute", "", "one", "products function: one(text) returns text, it must return a set of text"},
	} {
		e, err := engine.New(engine.Config{
			Pool: b.pool, WorkerID: workerA, ArticleFunction: c.article,
			Recompute: b.sqlFunction(engine.SQLFunctionConfig{Name: c.recompute, Pool: shop}), Products: lister(c.products, shop),
		})
		must(t, err)
		if err := e.Check(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := engine.New(engine.Config{
		Pool: shop, WorkerID: workerA, Refreshes: 16,
		Recompute: b.sqlFunction(engine.SQLFunctionConfig{Name: "recompute", Pool: shop}),
	}); err == nil || !strings.Contains(err.Error(), "heartbeats would find none") {
		t.Errorf("a pool that is too small: %v", err)
	}
	if _, err := engine.NewSQLFunction(engine.SQLFunctionConfig{Timeout: -1}); err == nil {
		t.Error("an empty configuration was taken")
	}
	if _, err := engine.NewHTTPEndpoint(webcall.Config{URL: "ftp://x"}); err == nil {
		t.Error("a URL that can't be was taken")
	}
}
