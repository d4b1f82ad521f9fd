-- The tables of the sample application. Safe to run again: what exists stays.
CREATE SCHEMA IF NOT EXISTS pricing;
COMMENT ON SCHEMA pricing IS 'Sample application of notifyworker: supplier tariffs in, sale prices out';

CREATE TABLE IF NOT EXISTS pricing.catalogs (
	id            text    PRIMARY KEY CHECK (id <> ''),
	margin        numeric NOT NULL DEFAULT 0.25 CHECK (margin >= 0),
	rounding_step numeric NOT NULL DEFAULT 0.01 CHECK (rounding_step > 0),
	minimum_price numeric NOT NULL DEFAULT 0    CHECK (minimum_price >= 0)
);
COMMENT ON TABLE  pricing.catalogs IS 'A catalog and its price rules. A change of rules calls for a full refresh of the catalog';
COMMENT ON COLUMN pricing.catalogs.id IS 'Name of the catalog, the catalogId of its jobs';
COMMENT ON COLUMN pricing.catalogs.margin IS 'Added to the unit price: 0.25 is 25 per cent';
COMMENT ON COLUMN pricing.catalogs.rounding_step IS 'Prices are multiples of this, rounded half up';
COMMENT ON COLUMN pricing.catalogs.minimum_price IS 'No price is lower, but for articles that cost nothing: they stay free';

CREATE TABLE IF NOT EXISTS pricing.articles (
	id text PRIMARY KEY
);
COMMENT ON TABLE pricing.articles IS 'What the variants 85123A and 85123B of a product have in common: 85123';

CREATE TABLE IF NOT EXISTS pricing.products (
	code       text PRIMARY KEY CHECK (code <> ''),
	article_id text NOT NULL REFERENCES pricing.articles
);
COMMENT ON TABLE  pricing.products IS 'One row a product code, created by the first tariff that names it';
COMMENT ON COLUMN pricing.products.code IS 'The supplier''s code as it was sent: case and spaces count';
CREATE INDEX IF NOT EXISTS products_article_idx ON pricing.products (article_id);

-- Where a publication stands among those of the same moment; see publish_tariffs.
CREATE SEQUENCE IF NOT EXISTS pricing.publication_seq AS bigint MAXVALUE 2147483647;

-- fillfactor: tariffs and prices are overwritten in place all day, and with room on the page that costs no index entry.
CREATE TABLE IF NOT EXISTS pricing.supplier_tariffs (
	catalog_id   text        NOT NULL REFERENCES pricing.catalogs,
	product_id   text        NOT NULL REFERENCES pricing.products,
	unit_price   numeric     NOT NULL CHECK (unit_price >= 0 AND unit_price < 'Infinity'),
	update_id    text        NOT NULL,
	published_at timestamptz NOT NULL,
	position     bigint      NOT NULL,
	PRIMARY KEY (catalog_id, product_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE  pricing.supplier_tariffs IS 'The tariff in force, one row a catalog and product';
COMMENT ON COLUMN pricing.supplier_tariffs.unit_price IS 'What the supplier asks; 0 is legal, negative is not';
COMMENT ON COLUMN pricing.supplier_tariffs.update_id IS 'The supplier''s message that set it';
COMMENT ON COLUMN pricing.supplier_tariffs.published_at IS 'A later one replaces an earlier one, in whatever order they arrive';
COMMENT ON COLUMN pricing.supplier_tariffs.position IS 'Decides between two tariffs published at the same moment: the higher one stays';

CREATE TABLE IF NOT EXISTS pricing.prices (
	catalog_id    text        NOT NULL,
	product_id    text        NOT NULL,
	price         numeric     NOT NULL CHECK (price >= 0),
	unit_price    numeric     NOT NULL,
	update_id     text        NOT NULL,
	published_at  timestamptz NOT NULL,
	recomputed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (catalog_id, product_id),
	FOREIGN KEY (catalog_id, product_id) REFERENCES pricing.supplier_tariffs
) WITH (fillfactor = 70);
COMMENT ON TABLE  pricing.prices IS 'The sale price of each tariff, written by recompute alone';
COMMENT ON COLUMN pricing.prices.unit_price IS 'The tariff that the price came from, with update_id and published_at';
COMMENT ON COLUMN pricing.prices.recomputed_at IS 'When a recompute last changed this row';
