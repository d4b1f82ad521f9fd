-- recompute: the prices of some products of a catalog, or of all its products where p_product_ids is NULL.
-- Two recomputes of one product may overlap (a worker died, another took over). The one that read an older tariff must not
-- write last: so each locks the price first and reads the tariff after, in a statement of its own with a snapshot of its own.
-- A publisher is never held up: nothing here locks a tariff against it.
-- locks: new prices, then existing ones, each in product order: two recomputes never deadlock
-- returns: how many of the products have a tariff, hence a price that is right now
CREATE OR REPLACE FUNCTION pricing.recompute(p_catalog_id text, p_product_ids jsonb)
RETURNS integer LANGUAGE plpgsql SET search_path = pricing, pg_temp AS $$
DECLARE
	ids     text[];
	priced  integer;
BEGIN
	IF p_product_ids IS NULL THEN
		ids := ARRAY(SELECT products_of(p_catalog_id));
	ELSIF jsonb_typeof(p_product_ids) <> 'array' THEN
		RAISE EXCEPTION 'recompute: product ids are a JSON %, give an array', jsonb_typeof(p_product_ids)
			USING ERRCODE = 'invalid_parameter_value';
	ELSE
		ids := ARRAY(SELECT DISTINCT e FROM jsonb_array_elements_text(p_product_ids) e WHERE e IS NOT NULL);
	END IF;

	INSERT INTO prices (catalog_id, product_id, price, unit_price, update_id, published_at)
	SELECT t.catalog_id, t.product_id, expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price),
	       t.unit_price, t.update_id, t.published_at
	  FROM unnest(ids) u (product_id)
	  JOIN supplier_tariffs t ON t.catalog_id = p_catalog_id AND t.product_id = u.product_id
	  JOIN catalogs c ON c.id = t.catalog_id
	 WHERE NOT EXISTS (SELECT FROM prices p WHERE p.catalog_id = t.catalog_id AND p.product_id = t.product_id)
	 ORDER BY t.product_id
	ON CONFLICT DO NOTHING;

	SELECT count(*) INTO priced
	  FROM (SELECT FROM unnest(ids) u (product_id)
	          JOIN prices p ON p.catalog_id = p_catalog_id AND p.product_id = u.product_id
	         ORDER BY p.product_id
	           FOR NO KEY UPDATE OF p) locked;

	-- A row that is right already is left alone: a refresh that comes twice writes nothing the second time.
	UPDATE prices p
	   SET price = expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price),
	       unit_price = t.unit_price, update_id = t.update_id, published_at = t.published_at, recomputed_at = clock_timestamp()
	  FROM unnest(ids) u (product_id)
	  JOIN supplier_tariffs t ON t.catalog_id = p_catalog_id AND t.product_id = u.product_id
	  JOIN catalogs c ON c.id = t.catalog_id
	 WHERE p.catalog_id = t.catalog_id AND p.product_id = t.product_id
	   AND (p.price, p.unit_price, p.update_id, p.published_at)
	       IS DISTINCT FROM (expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price), t.unit_price, t.update_id, t.published_at);
	RETURN priced;
END $$;
COMMENT ON FUNCTION pricing.recompute(text, jsonb) IS 'Recomputes prices; what notifyworker is pointed at with recompute: sql:pricing.recompute';
