-- The demo's own bookkeeping: what was published, and what became of it. :"notify" and :"polling" are the two queues.
CREATE SCHEMA demo;

-- One row a publication, written in its transaction: the xid leads to the time of its commit.
CREATE TABLE demo.ledger (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	queue        text NOT NULL,
	catalog_id   text NOT NULL,
	product_ids  jsonb NOT NULL,
	joined       boolean NOT NULL,
	xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
	committed_at timestamptz, -- by the server's own record, or read right after the commit where it keeps none
	started_at   timestamptz  -- of the first job that took the ids after the commit
);
CREATE INDEX ledger_open_idx ON demo.ledger (id) WHERE started_at IS NULL;

-- One row a change of a job's state. A requeue overwrites jobs.started_at, so the first start is kept here.
CREATE TABLE demo.moves (
	queue       text NOT NULL,
	job_id      bigint NOT NULL,
	catalog_id  text,
	was         text,
	became      text NOT NULL,
	product_ids jsonb,
	started_at  timestamptz,
	seen        pg_snapshot, -- what the reservation could see, and a moment's more
	xid         xid8 NOT NULL DEFAULT pg_current_xact_id(), -- that of the publication, when its commit handed the job over
	at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX moves_started_idx ON demo.moves (queue, catalog_id, started_at) WHERE became = 'RUNNING';
CREATE INDEX moves_job_idx ON demo.moves (queue, job_id) WHERE was = 'RUNNING';
CREATE INDEX moves_requeued_idx ON demo.moves (queue) WHERE was = 'RUNNING' AND became = 'PENDING';

CREATE FUNCTION demo.note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO demo.moves (queue, job_id, catalog_id, was, became, product_ids, started_at, seen)
	VALUES (TG_TABLE_SCHEMA, NEW.id, NEW.config ->> 'catalogId', CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status,
	        CASE WHEN NEW.status = 'RUNNING' THEN NEW.config -> 'productIds' END,
	        CASE WHEN NEW.status = 'RUNNING' THEN NEW.started_at END,
	        CASE WHEN NEW.status = 'RUNNING' THEN pg_current_snapshot() END);
	RETURN NULL;
END $$;

CREATE TRIGGER demo_started AFTER INSERT ON :"notify".jobs FOR EACH ROW WHEN (NEW.status = 'RUNNING') EXECUTE FUNCTION demo.note_move();
CREATE TRIGGER demo_moved AFTER UPDATE OF status ON :"notify".jobs FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION demo.note_move();
CREATE TRIGGER demo_started AFTER INSERT ON :"polling".jobs FOR EACH ROW WHEN (NEW.status = 'RUNNING') EXECUTE FUNCTION demo.note_move();
CREATE TRIGGER demo_moved AFTER UPDATE OF status ON :"polling".jobs FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION demo.note_move();

-- One row an admission of a recomputation, with what it could see. It reads the tariffs later, so whatever was committed for it then
-- is in it. That is asked of the snapshot, since not every server keeps the times of commits.
CREATE TABLE demo.admissions (
	queue      text NOT NULL,
	refresh_id bigint NOT NULL,
	seen       pg_snapshot NOT NULL,
	PRIMARY KEY (queue, refresh_id)
);

CREATE FUNCTION demo.note_admission() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO demo.admissions (queue, refresh_id, seen) VALUES (TG_TABLE_SCHEMA, NEW.id, pg_current_snapshot());
	RETURN NULL;
END $$;

CREATE TRIGGER demo_admitted AFTER INSERT ON :"notify".refreshes FOR EACH ROW EXECUTE FUNCTION demo.note_admission();
CREATE TRIGGER demo_admitted AFTER INSERT ON :"polling".refreshes FOR EACH ROW EXECUTE FUNCTION demo.note_admission();

-- The recomputation takes as long as a real one may: so products are in flight when the next update of them comes.
CREATE FUNCTION demo.recompute(catalog_id text, product_ids jsonb) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(0.025);
	RETURN pricing.recompute(catalog_id, product_ids);
END $$;

-- The polled set has the same catalogs under other names, with the same rules.
INSERT INTO pricing.catalogs (id, margin, rounding_step, minimum_price)
SELECT id || ' (polled)', margin, rounding_step, minimum_price FROM pricing.catalogs WHERE id NOT LIKE '% (polled)'
ON CONFLICT DO NOTHING;
