-- publish_tariffs: one supplier message, as arrays of equal length, one element a line.
-- A tariff replaces the one in force when it was published later. Of two published at the same moment the one with the higher
-- position stays, so the result does not depend on the order in which messages arrive, nor on a message arriving twice.
-- Within one message, a later line wins over an earlier one of the same moment.
-- p_position: NULL takes the next free one. A replay of many messages takes one start_publication() and adds a running number.
-- locks: new catalogs, articles and products in name order, then tariffs in (catalog, product) order: two publishers never deadlock
-- returns: how many tariffs are in force now that were not before
CREATE OR REPLACE FUNCTION pricing.publish_tariffs(p_update_id text, p_published_at timestamptz[], p_catalog_ids text[],
	p_product_ids text[], p_unit_prices numeric[], p_position bigint DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql SET search_path = pricing, pg_temp
-- Plans are kept, and one made while the tables were empty would be a scan of them for ever. So: by index, and a scalar
-- subquery instead of NOT EXISTS, which leaves no other plan than one look for each.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	applied integer;
BEGIN
	IF cardinality(p_published_at) <> cardinality(p_catalog_ids) OR cardinality(p_published_at) <> cardinality(p_product_ids)
		OR cardinality(p_published_at) <> cardinality(p_unit_prices) THEN
		RAISE EXCEPTION 'publish_tariffs: the four arrays have different lengths' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	p_position := coalesce(p_position, start_publication());

	INSERT INTO catalogs (id)
	SELECT DISTINCT c FROM unnest(p_catalog_ids) c
	 WHERE (SELECT id FROM catalogs WHERE id = c) IS NULL
	 ORDER BY c
	ON CONFLICT DO NOTHING;

	-- Most messages name known products only: one look spares them two inserts.
	IF EXISTS (SELECT FROM unnest(p_product_ids) p WHERE (SELECT code FROM products WHERE code = p) IS NULL) THEN
		INSERT INTO articles (id)
		SELECT DISTINCT article_of(p) AS a FROM unnest(p_product_ids) p
		 ORDER BY a
		ON CONFLICT DO NOTHING;
		INSERT INTO products (code, article_id)
		SELECT DISTINCT p, article_of(p) FROM unnest(p_product_ids) p
		 ORDER BY p
		ON CONFLICT DO NOTHING;
	END IF;

	INSERT INTO supplier_tariffs AS t (catalog_id, product_id, unit_price, update_id, published_at, position)
	SELECT DISTINCT ON (l.catalog_id, l.product_id)
	       l.catalog_id, l.product_id, l.unit_price, p_update_id, l.published_at, p_position
	  FROM unnest(p_published_at, p_catalog_ids, p_product_ids, p_unit_prices)
	       WITH ORDINALITY l (published_at, catalog_id, product_id, unit_price, line)
	 ORDER BY l.catalog_id, l.product_id, l.published_at DESC, l.line DESC
	ON CONFLICT (catalog_id, product_id) DO UPDATE
	   SET unit_price = excluded.unit_price, update_id = excluded.update_id,
	       published_at = excluded.published_at, position = excluded.position
	 WHERE (excluded.published_at, excluded.position) > (t.published_at, t.position);
	GET DIAGNOSTICS applied = ROW_COUNT;
	RETURN applied;
END $$;
COMMENT ON FUNCTION pricing.publish_tariffs IS 'Upserts the tariffs of one supplier message';

-- The high half of a position says which publication, the low half leaves room for four thousand million messages in it.
CREATE OR REPLACE FUNCTION pricing.start_publication()
RETURNS bigint LANGUAGE sql AS $$
	SELECT nextval('pricing.publication_seq') << 32
$$;
COMMENT ON FUNCTION pricing.start_publication IS 'The first position of a new publication: higher than all of earlier ones';
