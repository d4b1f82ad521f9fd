-- How reserve takes a PRICE_REFRESH that does not stand alone: with the additions that joined it, and with a successor for those
-- that are still under way. Marked additions, for which no job waits, become a job here.

-- reserve_refresh: reserves one PENDING PRICE_REFRESH whose row is locked already.
-- returns: false when it was a successor with nothing to fold yet: gone, or due again a little later
-- locks: catalog (tried, exclusive), additions (see fold)
CREATE OR REPLACE FUNCTION :"schema".reserve_refresh(p_id bigint, p_worker uuid, p_lease_ms integer, p_leases jsonb, p_max_ids integer)
    RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    at    constant timestamptz := clock_timestamp();
    r     record;
    w     record;
    f     record;
    quiet boolean;
    left_behind boolean;
BEGIN
    SELECT j.tenant_id, j.catalog_id, j.config, j.successor, j.run_after, j.updated_at, j.max_attempts INTO r
      FROM jobs j WHERE j.id = p_id;
    quiet := pg_try_advisory_xact_lock(1853292545, catalog_stripe(r.tenant_id, r.catalog_id));
    IF r.successor THEN
        SELECT count(*) AS n, bool_and(a.from_job_id IS NOT NULL) AS all_requeued, min(a.run_after) AS due INTO w
          FROM job_additions a WHERE a.tenant_id = r.tenant_id AND a.catalog_id = r.catalog_id;
        IF w.n = 0 AND quiet THEN
            DELETE FROM jobs j WHERE j.id = p_id;
            RETURN false;
        ELSIF w.n = 0 THEN
            UPDATE jobs j SET updated_at = at,
                   run_after = at + least(interval '1 s', greatest(interval '10 ms', 2 * (r.run_after - r.updated_at)))
             WHERE j.id = p_id;
            RETURN false;
        ELSIF w.all_requeued AND w.due > at THEN
            -- Ids that were refused a moment ago keep their back-off, or a busy catalog would be asked without a pause.
            UPDATE jobs j SET updated_at = at, run_after = w.due WHERE j.id = p_id;
            RETURN false;
        END IF;
    END IF;
    SELECT * INTO f FROM fold(r.tenant_id, r.catalog_id, p_id, r.config -> 'productIds', p_max_ids);
    -- What is left now was locked by somebody, a person perhaps, and passed over: it needs a job as well.
    left_behind := EXISTS (SELECT FROM job_additions a WHERE a.tenant_id = r.tenant_id AND a.catalog_id = r.catalog_id);
    IF r.successor AND f.taken = 0 THEN
        UPDATE jobs j SET updated_at = at,
               run_after = at + least(interval '1 s', greatest(interval '10 ms', 2 * (r.run_after - r.updated_at)))
         WHERE j.id = p_id;
        RETURN false;
    END IF;
    UPDATE jobs j SET status = 'RUNNING', successor = false, lock_token = gen_random_uuid(), worker_id = p_worker,
           attempts = least(greatest(j.attempts, CASE WHEN r.successor THEN f.attempts END), 2147483646) + 1,
           started_at = at, updated_at = at,
           lease_expires_at = at + coalesce((p_leases ->> 'PRICE_REFRESH')::integer, p_lease_ms) * interval '1 ms',
           operated_by = coalesce(j.operated_by, f.operated_by), trace_id = coalesce(j.trace_id, f.trace_id),
           config = j.config || jsonb_build_object('productIds', f.ids) || CASE WHEN f.full_refresh THEN '{"full": true}'::jsonb ELSE '{}' END
     WHERE j.id = p_id;
    IF NOT FOUND THEN -- or its additions would be gone
        RAISE EXCEPTION 'job % can''t be reserved: a trigger of yours on jobs suppresses the UPDATE', p_id
            USING ERRCODE = 'triggered_action_exception', HINT = 'Let it raise an error, or pass over PRICE_REFRESH jobs.';
    END IF;
    IF f.more OR left_behind OR NOT quiet THEN
        PERFORM leave_successor(r.tenant_id, r.catalog_id, CASE WHEN f.more THEN at ELSE at + interval '10 ms' END);
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION :"schema".reserve_refresh IS 'Internal: reserves one PRICE_REFRESH, with the additions that joined it.';

-- reserve_what_fits: reserve_refresh of a job whose ids may be more than one JSON value can hold (256 MB): then fewer of them,
-- and the others are left to its successors.
CREATE OR REPLACE FUNCTION :"schema".reserve_what_fits(p_id bigint, p_worker uuid, p_lease_ms integer, p_leases jsonb, p_max_ids integer)
    RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    most integer := p_max_ids;
BEGIN
    LOOP
        BEGIN
            RETURN reserve_refresh(p_id, p_worker, p_lease_ms, p_leases, most);
        EXCEPTION WHEN program_limit_exceeded THEN
            IF most <= 1 THEN
                RAISE;
            END IF;
            most := most / 4 + 1;
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION :"schema".reserve_what_fits IS 'Internal: reserves one PRICE_REFRESH with as many of its ids as one JSON value can hold.';

-- reserve_all_marked: RUNNING jobs of the marked additions that are due and whose catalog has no waiting job.
-- returns: the jobs' ids
-- locks: one addition a catalog, passing over locked ones; then as reserve_marked
CREATE OR REPLACE FUNCTION :"schema".reserve_all_marked(p_limit integer, p_worker uuid, p_lease_ms integer, p_leases jsonb, p_max_ids integer, p_careful boolean)
    RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    jobs_made bigint[] := '{}';
    job       bigint;
    most      integer;
    r         record;
BEGIN
    FOR r IN SELECT a.tenant_id, a.catalog_id FROM job_additions a
              WHERE a.marked AND a.run_after <= clock_timestamp()
                AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id
                                                     AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
                AND EXISTS (SELECT FROM tenants t WHERE t.id = a.tenant_id)
              ORDER BY a.run_after, a.id LIMIT p_limit FOR UPDATE OF a SKIP LOCKED LOOP
        IF p_careful THEN
            most := p_max_ids;
            LOOP -- as reserve_what_fits
                BEGIN
                    job := reserve_marked(r.tenant_id, r.catalog_id, p_worker, p_lease_ms, p_leases, most);
                    EXIT;
                EXCEPTION WHEN OTHERS THEN
                    job := NULL;
                    IF SQLSTATE <> '54000' OR most <= 1 THEN
                        RAISE WARNING 'additions of catalog % can''t be reserved: %', left(r.catalog_id, 100), SQLERRM;
                        EXIT;
                    END IF;
                    most := most / 4 + 1;
                END;
            END LOOP;
        ELSE
            job := reserve_marked(r.tenant_id, r.catalog_id, p_worker, p_lease_ms, p_leases, p_max_ids);
        END IF;
        IF job IS NOT NULL THEN
            jobs_made := jobs_made || job;
        END IF;
    END LOOP;
    RETURN jobs_made;
END $$;
COMMENT ON FUNCTION :"schema".reserve_all_marked IS 'Internal: makes RUNNING jobs of marked additions for which no job waits.';

-- reserve_marked: makes a RUNNING job of a catalog's additions for which no job waits.
-- returns: its id, or NULL when somebody else was faster
-- locks: the additions (see fold)
CREATE OR REPLACE FUNCTION :"schema".reserve_marked(p_tenant uuid, p_catalog text, p_worker uuid, p_lease_ms integer, p_leases jsonb, p_max_ids integer)
    RETURNS bigint
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    at  constant timestamptz := clock_timestamp();
    job bigint;
    a   record;
    f   record;
BEGIN
    SELECT x.job_id, x.max_attempts INTO a FROM job_additions x
     WHERE x.tenant_id = p_tenant AND x.catalog_id = p_catalog AND x.marked
     ORDER BY x.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    job := coalesce(a.job_id, nextval(pg_get_serial_sequence(format('%I.jobs', :'schema'), 'id')));
    SELECT * INTO f FROM fold(p_tenant, p_catalog, job, '[]', p_max_ids);
    INSERT INTO jobs (id, tenant_id, type, status, operated_by, trace_id, config, max_attempts, attempts, lock_token, worker_id,
                      started_at, lease_expires_at)
    OVERRIDING SYSTEM VALUE
    VALUES (job, p_tenant, 'PRICE_REFRESH', 'RUNNING', f.operated_by, f.trace_id,
            jsonb_build_object('catalogId', p_catalog, 'productIds', f.ids) || CASE WHEN f.full_refresh THEN '{"full": true}'::jsonb ELSE '{}' END,
            a.max_attempts, least(coalesce(f.attempts, 0), 2147483646) + 1, gen_random_uuid(), p_worker, at,
            at + coalesce((p_leases ->> 'PRICE_REFRESH')::integer, p_lease_ms) * interval '1 ms');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no job can be made of additions: a trigger of yours on jobs suppresses the INSERT'
            USING ERRCODE = 'triggered_action_exception', HINT = 'Let it raise an error, or pass over PRICE_REFRESH jobs.';
    END IF;
    IF f.more THEN
        -- Ids that were put back have no waiting job: they stay marked, for the next look. One job id is given once, also
        -- when additions that came before the one that was told it were more than the job takes.
        UPDATE job_additions x SET marked = true, job_id = nullif(x.job_id, job)
         WHERE x.tenant_id = p_tenant AND x.catalog_id = p_catalog AND (NOT x.marked OR x.job_id = job)
           AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog
                                                AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH');
    END IF;
    RETURN job;
END $$;
COMMENT ON FUNCTION :"schema".reserve_marked IS 'Internal: makes a RUNNING job of marked additions for which no job waits.';

-- leave_successor: an empty PENDING job in the place of the one that this transaction has just reserved.
-- locks: nothing; the place in the unique index is this transaction's own
CREATE OR REPLACE FUNCTION :"schema".leave_successor(p_tenant uuid, p_catalog text, p_run_after timestamptz) RETURNS void
    LANGUAGE sql SET search_path = :"schema", pg_temp AS $$
    INSERT INTO jobs (tenant_id, type, config, successor, max_attempts, run_after, updated_at)
    VALUES (p_tenant, 'PRICE_REFRESH', jsonb_build_object('catalogId', p_catalog, 'productIds', '[]'::jsonb), true, 100,
            p_run_after, clock_timestamp());
$$;
COMMENT ON FUNCTION :"schema".leave_successor IS 'Internal: leaves the empty job that additions still under way will find.';
