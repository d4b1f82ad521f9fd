-- Is every price what the rules give for the tariff in force?

CREATE OR REPLACE VIEW pricing.mismatches AS
SELECT t.catalog_id, t.product_id, t.unit_price, t.update_id, t.published_at, p.price,
       pricing.expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price) AS expected,
       CASE WHEN p.product_id IS NULL THEN 'no price'
            WHEN p.price IS DISTINCT FROM pricing.expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price) THEN 'wrong price'
            ELSE 'price of an older tariff' END AS what
  FROM pricing.supplier_tariffs t
  JOIN pricing.catalogs c ON c.id = t.catalog_id
  LEFT JOIN pricing.prices p ON p.catalog_id = t.catalog_id AND p.product_id = t.product_id
 WHERE p.product_id IS NULL
    OR (p.price, p.unit_price, p.update_id, p.published_at)
       IS DISTINCT FROM (pricing.expected_price(t.unit_price, c.margin, c.rounding_step, c.minimum_price), t.unit_price, t.update_id, t.published_at);
COMMENT ON VIEW pricing.mismatches IS 'Tariffs whose price is missing, wrong, or of an older tariff; empty once all is recomputed';

CREATE OR REPLACE FUNCTION pricing.verdict(OUT tariffs bigint, OUT prices bigint, OUT mismatches bigint, OUT verdict text)
LANGUAGE sql STABLE AS $$
	WITH counted AS (
		SELECT (SELECT count(*) FROM pricing.supplier_tariffs) AS tariffs,
		       (SELECT count(*) FROM pricing.prices)           AS prices,
		       (SELECT count(*) FROM pricing.mismatches)       AS mismatches)
	SELECT c.tariffs, c.prices, c.mismatches,
	       CASE WHEN c.mismatches = 0 THEN 'right: every tariff has the price that the rules give'
	            ELSE 'wrong: see pricing.mismatches' END
	  FROM counted c
$$;
COMMENT ON FUNCTION pricing.verdict IS 'One line: tariffs, prices, mismatches, and what that means';
