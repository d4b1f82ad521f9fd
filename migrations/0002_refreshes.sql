-- 0002 refreshes: what the recompute engine has accepted.
-- locks: none that anybody can wait for, the table is new.

-- refresh_is_sound: the rules of the table as one function, as job_is_sound.
CREATE FUNCTION :"schema".refresh_is_sound(
    scope text, product_count integer, listed boolean, status text, lock_token uuid, lease_expires_at timestamptz, worker_id uuid,
    done_count integer, recomputed bigint, failed jsonb, failed_count integer, refused integer, attempts integer, error text,
    finished_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    broken text;
BEGIN
    broken := CASE
        WHEN NOT scope IN ('PARTIAL', 'FULL') THEN 'refreshes_scope_known'
        WHEN NOT status IN ('ACTIVE', 'DONE', 'DONE_WITH_ERRORS') THEN 'refreshes_status_known'
        WHEN (status = 'ACTIVE') <> (lock_token IS NOT NULL) THEN 'refreshes_token_iff_active'
        WHEN (status = 'ACTIVE') <> (lease_expires_at IS NOT NULL) THEN 'refreshes_lease_iff_active'
        WHEN NOT isfinite(lease_expires_at) THEN 'refreshes_lease_finite'
        WHEN NOT (worker_id IS NULL OR status = 'ACTIVE') THEN 'refreshes_worker_only_active'
        WHEN (status = 'ACTIVE') <> (finished_at IS NULL) THEN 'refreshes_finished_at_iff_ended'
        WHEN NOT (status = 'ACTIVE' OR (status = 'DONE_WITH_ERRORS') = (failed_count > 0 OR error IS NOT NULL)) THEN 'refreshes_errors_iff_failed'
        WHEN NOT done_count BETWEEN 0 AND product_count THEN 'refreshes_done_count_within'
        WHEN NOT recomputed >= 0 THEN 'refreshes_recomputed_not_negative'
        WHEN NOT jsonb_typeof(failed) = 'array' THEN 'refreshes_failed_array'
        WHEN NOT failed_count >= 0 THEN 'refreshes_failed_count_not_negative'
        WHEN NOT refused >= 0 THEN 'refreshes_refused_not_negative'
        WHEN NOT attempts >= 0 THEN 'refreshes_attempts_not_negative'
        WHEN NOT (scope = 'FULL' OR (listed AND product_count > 0)) THEN 'refreshes_partial_is_listed'
    END;
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RETURN :"schema".broken_rule(broken, 'refreshes');
END $$;
COMMENT ON FUNCTION :"schema".refresh_is_sound IS 'Internal: the rules that hold for every row of refreshes; raises 23514 with the name of the one that is broken.';

CREATE TABLE :"schema".refreshes (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id           bigint NOT NULL,
    tenant_id        uuid NOT NULL,
    catalog_id       text NOT NULL,
    scope            text NOT NULL,
    product_ids      jsonb NOT NULL,
    -- Generated, so that it is computed once and not at each progress, and an array of ids is asserted on the way.
    product_count    integer NOT NULL GENERATED ALWAYS AS (jsonb_array_length(product_ids)) STORED,
    listed           boolean NOT NULL,
    article_ids      text[] NOT NULL DEFAULT '{}',
    status           text NOT NULL DEFAULT 'ACTIVE',
    lock_token       uuid,
    lease_expires_at timestamptz,
    worker_id        uuid,
    done_count       integer NOT NULL DEFAULT 0,
    recomputed       bigint NOT NULL DEFAULT 0,
    failed           jsonb NOT NULL DEFAULT '[]',
    failed_count     integer NOT NULL DEFAULT 0,
    refused          integer NOT NULL DEFAULT 0,
    attempts         integer NOT NULL DEFAULT 0,
    error            text,
    trace_id         text,
    operated_by      uuid,
    created_at       timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    updated_at       timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT refreshes_sound CHECK (:"schema".refresh_is_sound(
        scope, product_count, listed, status, lock_token, lease_expires_at, worker_id, done_count, recomputed, failed, failed_count,
        refused, attempts, error, finished_at))
) WITH (
    -- Ids and articles lie in TOAST once there are many, so a version that progress or a heartbeat leaves is small: leave it
    -- room on its page. The lease is indexed, so most versions can't be HOT.
    fillfactor = 85,
    -- Two or three dead versions a refresh, whatever the size of the history: vacuum by count, not by share.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1,
    -- The planner must not believe for long that no refresh is ACTIVE, or that all are.
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 1000
);

-- Admission reads what is in flight in a catalog. Not unique: refreshes of different articles run side by side.
CREATE INDEX refreshes_in_flight_idx ON :"schema".refreshes (tenant_id, catalog_id) WHERE status = 'ACTIVE';
-- A takeover reads the leases that ended, oldest first.
CREATE INDEX refreshes_lease_idx ON :"schema".refreshes (lease_expires_at) WHERE status = 'ACTIVE';
-- From a job to what became of it.
CREATE INDEX refreshes_job_idx ON :"schema".refreshes (job_id);

COMMENT ON TABLE :"schema".refreshes IS 'One row a recomputation that the engine accepted: what is in flight on any worker, and the durable list of accepted work. A worker that dies loses nothing: another takes the refresh over when its lease ends.';
COMMENT ON COLUMN :"schema".refreshes.id IS 'Given by the database, never by hand.';
COMMENT ON COLUMN :"schema".refreshes.job_id IS 'The job that asked for it, COMPLETED in the same transaction. No foreign key: the job may be purged first.';
COMMENT ON COLUMN :"schema".refreshes.tenant_id IS 'Of the job.';
COMMENT ON COLUMN :"schema".refreshes.catalog_id IS 'Of the job.';
COMMENT ON COLUMN :"schema".refreshes.scope IS 'PARTIAL: the products in product_ids. FULL: the whole catalog; nothing else of it runs meanwhile.';
COMMENT ON COLUMN :"schema".refreshes.product_ids IS 'What is recomputed, in this order, JSON types kept. Frozen; that of a FULL refresh once the catalog is listed.';
COMMENT ON COLUMN :"schema".refreshes.product_count IS 'How many product_ids there are.';
COMMENT ON COLUMN :"schema".refreshes.listed IS 'True when product_ids is all there is to do. False for a FULL refresh that is one call, or whose catalog is not listed yet.';
COMMENT ON COLUMN :"schema".refreshes.article_ids IS 'The articles of product_ids: no other refresh of the catalog touches them meanwhile. Empty for FULL, which excludes everything.';
COMMENT ON COLUMN :"schema".refreshes.status IS 'ACTIVE, then DONE or DONE_WITH_ERRORS (what failed is a dead letter in jobs).';
COMMENT ON COLUMN :"schema".refreshes.lock_token IS 'Proof of who runs it: only its holder writes. Set exactly while ACTIVE.';
COMMENT ON COLUMN :"schema".refreshes.lease_expires_at IS 'Until when it is the holder''s without a heartbeat. Set exactly while ACTIVE.';
COMMENT ON COLUMN :"schema".refreshes.worker_id IS 'Which worker process runs it. Only while ACTIVE; NULL when it was handed back at a shutdown.';
COMMENT ON COLUMN :"schema".refreshes.done_count IS 'So many of product_ids, from the first on, are dealt with: recomputed, or in failed.';
COMMENT ON COLUMN :"schema".refreshes.recomputed IS 'How many prices the recomputation says it has recomputed.';
COMMENT ON COLUMN :"schema".refreshes.failed IS 'What could not be recomputed: [{"id": …, "error": …}, …]; errors are told for the first hundred. Once it has ended, the first hundred alone: the dead letter has all.';
COMMENT ON COLUMN :"schema".refreshes.failed_count IS 'How many products could not be recomputed.';
COMMENT ON COLUMN :"schema".refreshes.refused IS 'How many jobs were refused because of it. They are woken when it ends.';
COMMENT ON COLUMN :"schema".refreshes.attempts IS 'How often it was taken over from a dead worker since it last made progress.';
COMMENT ON COLUMN :"schema".refreshes.error IS 'Why it was given up, or NULL.';
COMMENT ON COLUMN :"schema".refreshes.trace_id IS 'Of the job.';
COMMENT ON COLUMN :"schema".refreshes.operated_by IS 'Of the job.';
COMMENT ON COLUMN :"schema".refreshes.created_at IS 'When it was accepted.';
COMMENT ON COLUMN :"schema".refreshes.started_at IS 'When its first progress was written, or it ended.';
COMMENT ON COLUMN :"schema".refreshes.finished_at IS 'When it ended. Set exactly at the end.';
COMMENT ON COLUMN :"schema".refreshes.updated_at IS 'When the row last changed.';
