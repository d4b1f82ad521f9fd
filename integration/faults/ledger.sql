-- The ledger: which ids were enqueued (written by the enqueuing transaction itself, so it is exact whatever becomes of its
-- acknowledgement), and when each was recomputed.
CREATE SCHEMA ledger;
CREATE TABLE ledger.enqueued (product text PRIMARY KEY, catalog text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE ledger.recomputed (product text NOT NULL, catalog text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX ON ledger.recomputed (product);
CREATE TABLE ledger.pace (seconds float8 NOT NULL); -- how long each call takes
INSERT INTO ledger.pace VALUES (0);

CREATE FUNCTION ledger.recompute(catalog_id text, product_ids jsonb) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    n integer;
BEGIN
    INSERT INTO ledger.recomputed (product, catalog) SELECT p, recompute.catalog_id FROM jsonb_array_elements_text(product_ids) p;
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM pg_sleep(seconds) FROM ledger.pace WHERE seconds > 0;
    RETURN n;
END $$;

-- enqueue: what a client's transaction does: it writes down its ids, and enqueues them.
CREATE FUNCTION ledger.enqueue(catalog_id text, product_ids text[]) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger.enqueued (product, catalog) SELECT p, enqueue.catalog_id FROM unnest(product_ids) p;
    RETURN (SELECT job_id FROM notifyworker.enqueue_price_refresh(enqueue.catalog_id, to_jsonb(product_ids)));
END $$;

-- work: a handler of another type; {"sleep": seconds} in config is how long it takes.
CREATE TABLE ledger.worked (job_id bigint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION ledger.work(job_id bigint, config jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger.worked VALUES (job_id);
    PERFORM pg_sleep((config ->> 'sleep')::float8);
    RETURN '{"worked": true}';
END $$;
