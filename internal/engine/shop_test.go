package engine_test

import (
	"context"

	"notifyworker/internal/engine"

	"github.com/jackc/pgx/v5/pgxpool"
)

// withShop makes the user's side of things in schema shop, and returns a pool whose search_path finds it: prices, which the
// recomputation writes; poison, the products that it can't digest.
func (b bench) withShop() *pgxpool.Pool {
	b.t.Helper()
	b.exec(`
		CREATE SCHEMA shop;
		CREATE TABLE shop.prices (catalog text, product text, type text, runs int NOT NULL DEFAULT 1, PRIMARY KEY (catalog, product, type));
		CREATE TABLE shop.poison (product text, code text);
		CREATE FUNCTION shop.recompute(catalog text, ids jsonb) RETURNS int LANGUAGE plpgsql AS $$
		DECLARE bad record; n int;
		BEGIN
			SELECT p.* INTO bad FROM poison p JOIN jsonb_array_elements_text(ids) i(id) ON i.id = p.product LIMIT 1;
			IF FOUND THEN
				RAISE EXCEPTION 'no rule for %', bad.product USING ERRCODE = bad.code;
			END IF;
			INSERT INTO prices AS old (catalog, product, type)
			SELECT catalog, i.id #>> '{}', jsonb_typeof(i.id) FROM jsonb_array_elements(coalesce(ids, '["whole"]')) i(id) ORDER BY 2
			ON CONFLICT ON CONSTRAINT prices_pkey DO UPDATE SET runs = old.runs + 1;
			GET DIAGNOSTICS n = ROW_COUNT;
			RETURN n;
		END $$;`)
	cfg := b.pool.Config().Copy()
	cfg.ConnConfig.RuntimeParams["search_path"] = "shop"
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(b.t, err)
	b.t.Cleanup(pool.Close)
	return pool
}

func lister(name string, pool *pgxpool.Pool) engine.Lister {
	if name == "" {
		return nil
	}
	return &engine.SQLProducts{Name: name, Pool: pool}
}
