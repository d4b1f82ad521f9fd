-- What a price is. Plain SQL without a search_path of its own, so that the planner can inline it.

CREATE OR REPLACE FUNCTION pricing.expected_price(unit_price numeric, margin numeric, rounding_step numeric, minimum_price numeric)
RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT CASE
		WHEN unit_price = 0 THEN 0
		ELSE greatest(minimum_price, round(unit_price * (1 + margin) / rounding_step) * rounding_step)
	END
$$;
COMMENT ON FUNCTION pricing.expected_price IS 'The price that a catalog''s rules give for a unit price; what is free stays free';

CREATE OR REPLACE FUNCTION pricing.article_of(product_id text)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT coalesce(substring(product_id FROM '^([0-9]+)[A-Za-z]+$'), product_id)
$$;
COMMENT ON FUNCTION pricing.article_of IS 'The article of a product code: digits with letters behind are variants of the digits, all else is its own article';

CREATE OR REPLACE FUNCTION pricing.products_of(catalog_id text)
RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT t.product_id FROM pricing.supplier_tariffs t WHERE t.catalog_id = products_of.catalog_id ORDER BY t.product_id
$$;
COMMENT ON FUNCTION pricing.products_of IS 'The products of a catalog, for a full refresh in chunks';
