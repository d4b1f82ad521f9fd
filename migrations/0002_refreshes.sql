-- 0002 refreshes: what the recompute engine accepted: the registry of what is in flight on every pod, and the durable list of
-- accepted work, since the job that brought it is COMPLETED by then.
-- locks: none that anybody can wait for, nothing exists yet.

CREATE TABLE :"schema".refreshes (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id           bigint NOT NULL,
    tenant_id        uuid NOT NULL,
    catalog_id       text NOT NULL,
    scope            text NOT NULL,
    product_ids      jsonb NOT NULL DEFAULT '[]',
    article_ids      text[] NOT NULL DEFAULT '{}',
    status           text NOT NULL DEFAULT 'ACTIVE',
    lock_token       uuid,
    lease_expires_at timestamptz,
    worker_id        uuid,
    done_count       integer NOT NULL DEFAULT 0,
    recomputed       bigint NOT NULL DEFAULT 0,
    failed           jsonb NOT NULL DEFAULT '[]',
    attempts         integer NOT NULL DEFAULT 1,
    error            text,
    trace_id         text,
    operated_by      uuid,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    finished_at      timestamptz,

    CONSTRAINT refreshes_scope_known CHECK (scope IN ('PARTIAL', 'FULL')),
    CONSTRAINT refreshes_status_known CHECK (status IN ('ACTIVE', 'DONE', 'DONE_WITH_ERRORS')),
    CONSTRAINT refreshes_product_ids_array CHECK (jsonb_typeof(product_ids) = 'array'),
    CONSTRAINT refreshes_failed_array CHECK (jsonb_typeof(failed) = 'array'),
    CONSTRAINT refreshes_token_iff_active CHECK ((status = 'ACTIVE') = (lock_token IS NOT NULL)),
    CONSTRAINT refreshes_lease_iff_active CHECK ((status = 'ACTIVE') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT refreshes_worker_only_active CHECK (worker_id IS NULL OR status = 'ACTIVE'),
    CONSTRAINT refreshes_finished_at_iff_ended CHECK ((status <> 'ACTIVE') = (finished_at IS NOT NULL)),
    CONSTRAINT refreshes_done_count_not_negative CHECK (done_count >= 0)
) WITH (
    -- Progress is written after every chunk; the lease is indexed, so those updates need room but can't be HOT.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1
);
-- Admission asks what is active in a catalog.
CREATE INDEX refreshes_active_catalog_idx ON :"schema".refreshes (tenant_id, catalog_id) WHERE status = 'ACTIVE';
-- Take-over reads the leases that ended.
CREATE INDEX refreshes_lease_idx ON :"schema".refreshes (lease_expires_at) WHERE status = 'ACTIVE';
-- From a job to its refresh.
CREATE INDEX refreshes_job_idx ON :"schema".refreshes (job_id);

COMMENT ON TABLE :"schema".refreshes IS 'One row a recomputation that the engine accepted; ACTIVE ones are in flight, on whichever pod.';
COMMENT ON COLUMN :"schema".refreshes.id IS 'Given by the database.';
COMMENT ON COLUMN :"schema".refreshes.job_id IS 'The job that brought it, COMPLETED in the same transaction; no foreign key, since jobs are purged on their own.';
COMMENT ON COLUMN :"schema".refreshes.tenant_id IS 'Whose catalog.';
COMMENT ON COLUMN :"schema".refreshes.catalog_id IS 'Which catalog.';
COMMENT ON COLUMN :"schema".refreshes.scope IS 'PARTIAL: the products named. FULL: the whole catalog.';
COMMENT ON COLUMN :"schema".refreshes.product_ids IS 'A JSON array, as in the job''s config.';
COMMENT ON COLUMN :"schema".refreshes.article_ids IS 'The articles of these products: a refresh with a common article is refused while this one is active.';
COMMENT ON COLUMN :"schema".refreshes.status IS 'ACTIVE, DONE, or DONE_WITH_ERRORS when ids were left to a dead letter.';
COMMENT ON COLUMN :"schema".refreshes.lock_token IS 'The fence: who holds it writes progress and release. Set exactly while ACTIVE.';
COMMENT ON COLUMN :"schema".refreshes.lease_expires_at IS 'When another pod may take it over. Set exactly while ACTIVE.';
COMMENT ON COLUMN :"schema".refreshes.worker_id IS 'The process that runs it. Only while ACTIVE.';
COMMENT ON COLUMN :"schema".refreshes.done_count IS 'How many products, from the front, are through: recomputed or failed.';
COMMENT ON COLUMN :"schema".refreshes.recomputed IS 'What the recomputation says it wrote, summed up.';
COMMENT ON COLUMN :"schema".refreshes.failed IS 'Ids that failed: [{"id": …, "error": "…"}, …].';
COMMENT ON COLUMN :"schema".refreshes.attempts IS 'How many processes have run it.';
COMMENT ON COLUMN :"schema".refreshes.error IS 'The last error, or NULL.';
COMMENT ON COLUMN :"schema".refreshes.trace_id IS 'The job''s.';
COMMENT ON COLUMN :"schema".refreshes.operated_by IS 'The job''s.';
COMMENT ON COLUMN :"schema".refreshes.created_at IS 'When it was accepted.';
COMMENT ON COLUMN :"schema".refreshes.updated_at IS 'When the row last changed.';
COMMENT ON COLUMN :"schema".refreshes.finished_at IS 'When it was released. Set exactly at the end.';
