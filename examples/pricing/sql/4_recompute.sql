-- recompute: the prices of some products of a catalog, or of all its products where p_product_ids is NULL.
-- Two recomputes of one product may overlap (a worker died, another took over). The one that read an older tariff must not
-- write last: so each locks the price first and reads the tariff after, in a statement of its own with a snapshot of its own.
-- A publisher is never held up: nothing here locks a tariff against it.
-- plans: PL/pgSQL keeps them, also those made while the tables were empty, when any join looks good. LATERAL with OFFSET 0 or
--        a lock inside, and a scalar subquery instead of NOT EXISTS, leave one plan: id by id, through the primary keys.
-- locks: new prices, then existing ones, each in product order: two recomputes never deadlock
-- returns: how many of the products have a tariff, hence a price that is right now
CREATE OR REPLACE FUNCTION pricing.recompute(p_catalog_id text, p_product_ids jsonb)
RETURNS integer LANGUAGE plpgsql SET search_path = pricing, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	ids    text[];
	priced integer;
BEGIN
	IF p_product_ids IS NULL THEN
		ids := ARRAY(SELECT products_of(p_catalog_id));
	ELSIF jsonb_typeof(p_product_ids) <> 'array' THEN
		RAISE EXCEPTION 'recompute: product ids are a JSON %, give an array', jsonb_typeof(p_product_ids)
			USING ERRCODE = 'invalid_parameter_value';
	ELSE
		ids := ARRAY(SELECT DISTINCT e FROM jsonb_array_elements_text(p_product_ids) e WHERE e IS NOT NULL ORDER BY e);
	END IF;

	INSERT INTO prices (catalog_id, product_id, price, unit_price, update_id, published_at)
	SELECT t.catalog_id, t.product_id, t.price, t.unit_price, t.update_id, t.published_at
	  FROM unnest(ids) u (product_id), LATERAL current_tariff(p_catalog_id, u.product_id) t
	 WHERE (SELECT p.product_id FROM prices p WHERE p.catalog_id = p_catalog_id AND p.product_id = u.product_id) IS NULL
	ON CONFLICT DO NOTHING;

	SELECT count(*) INTO priced
	  FROM unnest(ids) u (product_id),
	       LATERAL (SELECT FROM prices p WHERE p.catalog_id = p_catalog_id AND p.product_id = u.product_id FOR NO KEY UPDATE) locked;

	-- All rows are there by now, so this is an update. A row that is right already is left alone: a refresh that comes twice
	-- writes nothing the second time.
	INSERT INTO prices AS p (catalog_id, product_id, price, unit_price, update_id, published_at)
	SELECT t.catalog_id, t.product_id, t.price, t.unit_price, t.update_id, t.published_at
	  FROM unnest(ids) u (product_id), LATERAL current_tariff(p_catalog_id, u.product_id) t
	ON CONFLICT (catalog_id, product_id) DO UPDATE
	   SET price = excluded.price, unit_price = excluded.unit_price, update_id = excluded.update_id,
	       published_at = excluded.published_at, recomputed_at = clock_timestamp()
	 WHERE (p.price, p.unit_price, p.update_id, p.published_at)
	       IS DISTINCT FROM (excluded.price, excluded.unit_price, excluded.update_id, excluded.published_at);
	RETURN priced;
END $$;
COMMENT ON FUNCTION pricing.recompute(text, jsonb) IS 'Recomputes prices; what notifyworker is pointed at with recompute: sql:pricing.recompute';

-- current_tariff: the tariff in force and the price that the rules give for it; inlined where it is called.
CREATE OR REPLACE FUNCTION pricing.current_tariff(p_catalog_id text, p_product_id text,
	OUT catalog_id text, OUT product_id text, OUT price numeric, OUT unit_price numeric, OUT update_id text, OUT published_at timestamptz)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
	SELECT t.catalog_id, t.product_id, pricing.expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price),
	       t.unit_price, t.update_id, t.published_at
	  FROM pricing.supplier_tariffs t JOIN pricing.catalogs c ON c.id = p_catalog_id
	 WHERE t.catalog_id = p_catalog_id AND t.product_id = p_product_id
	OFFSET 0
$$;
COMMENT ON FUNCTION pricing.current_tariff IS 'The tariff in force of a product, and the price that the rules give for it';
