-- 0001 jobs: the queue's tables, as every later file finds them.
-- locks: none that anybody can wait for, nothing exists yet.

CREATE TABLE :"schema".tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE :"schema".tenants IS 'Who jobs are separated by. A single-tenant user never meets it: the tenant of zeros is the default everywhere.';
COMMENT ON COLUMN :"schema".tenants.id IS 'The tenant''s id; all zeros is the default tenant.';
COMMENT ON COLUMN :"schema".tenants.name IS 'For people.';
COMMENT ON COLUMN :"schema".tenants.created_at IS 'When the tenant was added.';
INSERT INTO :"schema".tenants (id, name) VALUES ('00000000-0000-0000-0000-000000000000', 'default');

-- job_is_sound, addition_is_sound: the rules of a table as one function and so one CHECK. PostgreSQL reads the expression of
-- every CHECK anew for each statement that writes; eighteen of them cost more than all else that an INSERT of a job does.
-- Each raises 23514 with the rule's name as the constraint, as a CHECK of that name would.
CREATE FUNCTION :"schema".broken_rule(broken text, relation text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'new row for relation "%" violates check constraint "%"', relation, broken
        USING ERRCODE = 'check_violation', SCHEMA = :'schema', TABLE = relation, CONSTRAINT = broken;
END $$;
COMMENT ON FUNCTION :"schema".broken_rule IS 'Internal: refuses a row that breaks a rule of its table.';

CREATE FUNCTION :"schema".job_is_sound(
    type text, status text, config jsonb, result jsonb, trace_id text, catalog_id text, product_count integer, successor boolean,
    lock_token uuid, lease_expires_at timestamptz, worker_id uuid, attempts integer, max_attempts integer, run_after timestamptz,
    created_at timestamptz, updated_at timestamptz, started_at timestamptz, finished_at timestamptz, duration_ms bigint) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    broken text;
BEGIN
    -- One expression: the fast way through plpgsql. What is NULL breaks no rule.
    broken := CASE
        WHEN NOT status IN ('PENDING', 'RUNNING', 'COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED') THEN 'jobs_status_known'
        WHEN NOT (type <> '' AND octet_length(type) <= 200) THEN 'jobs_type_sized'
        WHEN NOT octet_length(trace_id) <= 512 THEN 'jobs_trace_id_sized'
        -- A PRICE_REFRESH has a catalogId, so its config is an object: a million ids need not be read to see that.
        WHEN NOT (type = 'PRICE_REFRESH' OR jsonb_typeof(config) = 'object') THEN 'jobs_config_object'
        WHEN NOT jsonb_typeof(result) = 'object' THEN 'jobs_result_object'
        WHEN (status = 'RUNNING') <> (lock_token IS NOT NULL) THEN 'jobs_token_iff_running'
        WHEN (status = 'RUNNING') <> (lease_expires_at IS NOT NULL) THEN 'jobs_lease_iff_running'
        WHEN NOT (worker_id IS NULL OR status = 'RUNNING') THEN 'jobs_worker_only_running'
        WHEN (status IN ('COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED')) <> (finished_at IS NOT NULL) THEN 'jobs_finished_at_iff_ended'
        WHEN status = 'RUNNING' AND started_at IS NULL THEN 'jobs_started_when_running'
        WHEN NOT duration_ms >= 0 THEN 'jobs_duration_not_negative'
        WHEN NOT attempts >= 0 THEN 'jobs_attempts_not_negative'
        WHEN NOT max_attempts >= 1 THEN 'jobs_max_attempts_positive'
        -- An infinite time can't be subtracted from, nor read into a program's time: one such row would stop every reservation.
        WHEN NOT isfinite(run_after) THEN 'jobs_run_after_finite'
        WHEN NOT (isfinite(created_at) AND isfinite(updated_at) AND isfinite(started_at) AND isfinite(finished_at) AND isfinite(lease_expires_at))
            THEN 'jobs_times_finite'
        WHEN type = 'PRICE_REFRESH' AND NOT (catalog_id IS NOT NULL AND catalog_id <> '' AND octet_length(catalog_id) <= 1024)
            THEN 'jobs_price_refresh_catalog_id'
        WHEN type = 'PRICE_REFRESH' AND product_count IS NULL THEN 'jobs_price_refresh_product_ids_array'
        WHEN successor AND NOT (type = 'PRICE_REFRESH' AND status = 'PENDING' AND product_count = 0) THEN 'jobs_successor_is_empty'
    END;
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RETURN :"schema".broken_rule(broken, 'jobs');
END $$;
COMMENT ON FUNCTION :"schema".job_is_sound IS 'Internal: the rules that hold for every row of jobs; raises 23514 with the name of the one that is broken.';

CREATE TABLE :"schema".jobs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000' REFERENCES :"schema".tenants (id),
    type             text NOT NULL,
    operated_by      uuid,
    status           text NOT NULL DEFAULT 'PENDING',
    config           jsonb NOT NULL DEFAULT '{}',
    result           jsonb NOT NULL DEFAULT '{}',
    error            text,
    trace_id         text,
    catalog_id       text GENERATED ALWAYS AS (config ->> 'catalogId') STORED,
    product_count    integer GENERATED ALWAYS AS (
                         CASE WHEN jsonb_typeof(config -> 'productIds') = 'array'
                              THEN jsonb_array_length(config -> 'productIds') END) STORED,
    successor        boolean NOT NULL DEFAULT false,
    lock_token       uuid,
    lease_expires_at timestamptz,
    worker_id        uuid,
    attempts         integer NOT NULL DEFAULT 0,
    max_attempts     integer NOT NULL DEFAULT 20,
    run_after        timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    duration_ms      bigint,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),

    -- Token and lease exactly while RUNNING, finished_at exactly at the end, a catalog and ids in a PRICE_REFRESH, and so on.
    CONSTRAINT jobs_sound CHECK (:"schema".job_is_sound(
        type, status, config, result, trace_id, catalog_id, product_count, successor, lock_token, lease_expires_at, worker_id,
        attempts, max_attempts, run_after, created_at, updated_at, started_at, finished_at, duration_ms))
) WITH (
    -- Reserving and concluding change indexed columns, so they can't be HOT; progress written into result while a job
    -- runs can, if its page has room.
    fillfactor = 85,
    -- A job leaves two dead versions within seconds, whatever the size of the history: vacuum by count, not by share.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 1,
    -- The planner must not believe for long that no row is PENDING, or that all are.
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 2000
);

-- At most one PENDING PRICE_REFRESH per tenant and catalog. The tenant is in it, or catalogs of one name would mix.
CREATE UNIQUE INDEX jobs_price_refresh_pending_catalog_uq ON :"schema".jobs (tenant_id, catalog_id)
    WHERE status = 'PENDING' AND type = 'PRICE_REFRESH';
-- Reservation reads it from the oldest due time on, and so does the search for the next due time.
CREATE INDEX jobs_due_idx ON :"schema".jobs (run_after, id) WHERE status = 'PENDING';
-- Rescue reads the leases that ended; RUNNING rows that need no rescue never hide those that do.
CREATE INDEX jobs_lease_idx ON :"schema".jobs (lease_expires_at) WHERE status = 'RUNNING';
-- History of a type for people and pages.
CREATE INDEX jobs_type_tenant_created_idx ON :"schema".jobs (type, tenant_id, created_at DESC);
-- Durations and failures of the last hours, by an index-only scan.
CREATE INDEX jobs_stats_idx ON :"schema".jobs (finished_at) INCLUDE (type, duration_ms, status)
    WHERE finished_at IS NOT NULL;

COMMENT ON TABLE :"schema".jobs IS 'One row a job: imports, reports, price refreshes. PENDING, then RUNNING under a lock token, then ended.';
COMMENT ON COLUMN :"schema".jobs.id IS 'Given by the database, never by hand.';
COMMENT ON COLUMN :"schema".jobs.tenant_id IS 'Whose job it is; all zeros is the default tenant.';
COMMENT ON COLUMN :"schema".jobs.type IS 'PRICE_REFRESH, or any other type that a worker has a handler for.';
COMMENT ON COLUMN :"schema".jobs.operated_by IS 'Who asked for it, or NULL.';
COMMENT ON COLUMN :"schema".jobs.status IS 'PENDING, RUNNING, COMPLETED, COMPLETED_WITH_ERRORS or FAILED (a dead letter: replay() brings it back).';
COMMENT ON COLUMN :"schema".jobs.config IS 'The inputs, a JSON object; {"catalogId": "…", "productIds": […]} for a PRICE_REFRESH. Frozen once reserved.';
COMMENT ON COLUMN :"schema".jobs.result IS 'What happened: counters and notes, a JSON object that grows as the job runs.';
COMMENT ON COLUMN :"schema".jobs.error IS 'Why the last attempt failed or was refused, or NULL.';
COMMENT ON COLUMN :"schema".jobs.trace_id IS 'Ties the job to the request that asked for it, at most 512 bytes.';
COMMENT ON COLUMN :"schema".jobs.catalog_id IS 'config''s catalogId as a column, since it is filtered by.';
COMMENT ON COLUMN :"schema".jobs.product_count IS 'How many product ids config holds; NULL when productIds is not an array.';
COMMENT ON COLUMN :"schema".jobs.successor IS 'True for the empty PENDING job that a reservation left for additions still under way; false once it is reserved.';
COMMENT ON COLUMN :"schema".jobs.lock_token IS 'Proof of the present reservation: only its holder may conclude. Set exactly while RUNNING.';
COMMENT ON COLUMN :"schema".jobs.lease_expires_at IS 'Until when the reservation holds without a heartbeat. Set exactly while RUNNING.';
COMMENT ON COLUMN :"schema".jobs.worker_id IS 'Which worker process reserved it. Only while RUNNING.';
COMMENT ON COLUMN :"schema".jobs.attempts IS 'Reservations so far, counted when taken, so that a job that kills its worker uses one up too.';
COMMENT ON COLUMN :"schema".jobs.max_attempts IS 'After so many attempts it is FAILED instead of requeued.';
COMMENT ON COLUMN :"schema".jobs.run_after IS 'Not before this time: the delay asked for, or the back-off.';
COMMENT ON COLUMN :"schema".jobs.started_at IS 'When the last reservation was made.';
COMMENT ON COLUMN :"schema".jobs.finished_at IS 'When it ended. Set exactly at the end.';
COMMENT ON COLUMN :"schema".jobs.duration_ms IS 'From started_at to finished_at, in milliseconds; NULL when it ended without having run.';
COMMENT ON COLUMN :"schema".jobs.created_at IS 'When its transaction began, by the database''s clock.';
COMMENT ON COLUMN :"schema".jobs.updated_at IS 'When the row last changed.';

CREATE FUNCTION :"schema".addition_is_sound(
    id bigint, catalog_id text, product_ids jsonb, trace_id text, attempts integer, max_attempts integer, run_after timestamptz) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    broken text;
BEGIN
    broken := CASE
        WHEN NOT CASE WHEN jsonb_typeof(product_ids) = 'array' THEN jsonb_array_length(product_ids) <= 10000 ELSE false END
            THEN 'job_additions_product_ids_array'
        -- fold orders ids by the addition's id times 2^14: beyond 2^49 nothing of the catalog could be taken any more.
        WHEN NOT abs(id) < 281474976710656 THEN 'job_additions_id_small'
        -- What no row of jobs could hold would be reserved again and again, in vain.
        WHEN NOT octet_length(catalog_id) <= 1024 OR NOT octet_length(trace_id) <= 512 THEN 'job_additions_sized'
        WHEN NOT (attempts >= 0 AND max_attempts >= 1) THEN 'job_additions_attempts'
        WHEN NOT run_after < 'infinity' THEN 'job_additions_run_after_comes'
    END;
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RETURN :"schema".broken_rule(broken, 'job_additions');
END $$;
COMMENT ON FUNCTION :"schema".addition_is_sound IS 'Internal: the rules that hold for every row of job_additions; raises 23514 with the name of the one that is broken.';

CREATE TABLE :"schema".job_additions (
    id           bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id    uuid NOT NULL,
    catalog_id   text NOT NULL,
    product_ids  jsonb NOT NULL,
    full_refresh boolean NOT NULL DEFAULT false,
    marked       boolean NOT NULL DEFAULT false,
    from_job_id  bigint,
    job_id       bigint,
    operated_by  uuid,
    trace_id     text,
    attempts     integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 100,
    run_after    timestamptz NOT NULL DEFAULT '-infinity',
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, catalog_id, id),
    CONSTRAINT job_additions_sound CHECK (:"schema".addition_is_sound(
        id, catalog_id, product_ids, trace_id, attempts, max_attempts, run_after))
) WITH (
    -- Rows are only inserted and deleted: no room for updates is needed, and a hot catalog's dead rows lie in the way of
    -- its next reservation.
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 5000
);
-- What waits for nobody's job: almost always empty.
CREATE INDEX job_additions_marked_idx ON :"schema".job_additions (run_after, id) WHERE marked;

COMMENT ON TABLE :"schema".job_additions IS 'Product ids that join their catalog''s waiting job, whichever that is when they are read. A row here costs the same whatever the size of that job.';
COMMENT ON COLUMN :"schema".job_additions.id IS 'Order of arrival within the catalog.';
COMMENT ON COLUMN :"schema".job_additions.tenant_id IS 'With catalog_id, where they belong.';
COMMENT ON COLUMN :"schema".job_additions.catalog_id IS 'With tenant_id, where they belong.';
COMMENT ON COLUMN :"schema".job_additions.product_ids IS 'A JSON array of strings and numbers, at most 10,000 of them.';
COMMENT ON COLUMN :"schema".job_additions.full_refresh IS 'The whole catalog is asked for.';
COMMENT ON COLUMN :"schema".job_additions.marked IS 'True when no waiting job was seen: a reservation makes a job of it where none waits then. An unmarked one always has a PENDING job.';
COMMENT ON COLUMN :"schema".job_additions.from_job_id IS 'The job that was merged by a requeue: it learns in its result who took its ids.';
COMMENT ON COLUMN :"schema".job_additions.job_id IS 'The job id that the enqueuer of a marked addition was told: the job made of it, or one that ends at once as merged.';
COMMENT ON COLUMN :"schema".job_additions.operated_by IS 'Who asked; kept by the job if it has nobody yet.';
COMMENT ON COLUMN :"schema".job_additions.trace_id IS 'Kept by the job if it has none yet.';
COMMENT ON COLUMN :"schema".job_additions.attempts IS 'Attempts of the requeued job, for the case that a job is made of its ids alone.';
COMMENT ON COLUMN :"schema".job_additions.max_attempts IS 'Likewise.';
COMMENT ON COLUMN :"schema".job_additions.run_after IS 'Delay or back-off, for the case that a job is made of it; a job that waits already is not moved by it.';
COMMENT ON COLUMN :"schema".job_additions.created_at IS 'When its transaction began.';

CREATE TABLE :"schema".workers (
    id           uuid PRIMARY KEY,
    host         text NOT NULL,
    pid          integer NOT NULL,
    version      text NOT NULL,
    slots        integer NOT NULL,
    busy         integer NOT NULL DEFAULT 0,
    wants_notify boolean NOT NULL DEFAULT false,
    started_at   timestamptz NOT NULL DEFAULT now(),
    last_beat    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (
    -- A handful of rows, updated all the time and read by every notifying commit: keep them on their page.
    fillfactor = 30,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE :"schema".workers IS 'One row a live worker process. A row whose last beat is old belongs to a dead one and counts for nothing.';
COMMENT ON COLUMN :"schema".workers.id IS 'Made anew at each start of the process.';
COMMENT ON COLUMN :"schema".workers.host IS 'Where it runs.';
COMMENT ON COLUMN :"schema".workers.pid IS 'Its process id there.';
COMMENT ON COLUMN :"schema".workers.version IS 'Of its binary.';
COMMENT ON COLUMN :"schema".workers.slots IS 'How many jobs it runs at once.';
COMMENT ON COLUMN :"schema".workers.busy IS 'How many it ran at its last beat.';
COMMENT ON COLUMN :"schema".workers.wants_notify IS 'It sleeps and wants to be told of jobs. While nobody wants it, commits don''t notify.';
COMMENT ON COLUMN :"schema".workers.started_at IS 'When the process registered.';
COMMENT ON COLUMN :"schema".workers.last_beat IS 'When it last said that it lives.';
