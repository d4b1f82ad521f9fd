-- Marked additions: those for which no job was seen to wait when they were enqueued. A reservation makes a job of them where none waits then.

-- marked_waits_longer: whether a marked addition has been due since before a job was: the one that reserve_all_marked takes first,
-- of the first twenty.
-- locks: that one, passing over locked ones
CREATE OR REPLACE FUNCTION :"schema".marked_waits_longer(p_job bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    since timestamptz;
BEGIN
    SELECT greatest(a.run_after, a.created_at) INTO since
      FROM (SELECT m.tenant_id, m.catalog_id, m.id FROM job_additions m
             WHERE m.marked AND m.run_after <= clock_timestamp() ORDER BY m.run_after, m.id LIMIT 20) first
      JOIN job_additions a USING (tenant_id, catalog_id, id)
     WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id
                                            AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
     ORDER BY a.run_after, a.id LIMIT 1 FOR UPDATE OF a SKIP LOCKED;
    RETURN FOUND AND EXISTS (SELECT FROM jobs j WHERE j.id = p_job AND j.run_after > since);
END $$;
COMMENT ON FUNCTION :"schema".marked_waits_longer IS 'Internal: whether a marked addition has waited for longer than this job.';

-- settle_marked: marked additions that can't become a job for now don't stand before those that can. One whose catalog has a waiting
-- job that is not due, or has waited for a while, is that job's from now on, like any that has joined it. One whose tenant is gone is
-- looked at again in a minute. It is about the first 1,000.
-- locks: for each such catalog: catalog (tried, exclusive; look only then), then its marked additions, passing over locked ones. Who
--        takes the job meanwhile leaves a successor, since it can't have the catalog's lock.
CREATE OR REPLACE FUNCTION :"schema".settle_marked() RETURNS void
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
    r  record;
BEGIN
    FOR r IN SELECT DISTINCT a.tenant_id, a.catalog_id, t.id IS NULL AS gone
               FROM (SELECT m.* FROM job_additions m WHERE m.marked AND m.run_after <= at ORDER BY m.run_after, m.id LIMIT 1000) a
               LEFT JOIN tenants t ON t.id = a.tenant_id
              WHERE t.id IS NULL
                 OR EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH'
                                                 AND (j.run_after > at OR a.created_at < at - interval '1 s')) LOOP
        IF r.gone THEN
            PERFORM put_off_marked(r.tenant_id, r.catalog_id, 1000);
        ELSIF pg_try_advisory_xact_lock(1853292545, catalog_stripe(r.tenant_id, r.catalog_id)) THEN
            UPDATE job_additions x SET marked = false
             WHERE x.ctid = ANY (ARRAY(SELECT a.ctid FROM job_additions a WHERE a.tenant_id = r.tenant_id AND a.catalog_id = r.catalog_id AND a.marked
                                        LIMIT 1000 FOR UPDATE SKIP LOCKED))
               AND EXISTS (SELECT FROM jobs j WHERE j.tenant_id = r.tenant_id AND j.catalog_id = r.catalog_id AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH');
        END IF;
    END LOOP;
EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses it: they stay where they are
    RAISE WARNING 'marked additions stand in the way of others: %', SQLERRM;
END $$;
COMMENT ON FUNCTION :"schema".settle_marked IS 'Internal: marked additions that wait for a job are that job''s from now on.';

-- put_off_marked: a catalog's marked additions that can't be reserved let others come first for a minute.
-- $1 tenant  $2 catalog  $3 at most so many; NULL: all
-- locks: those additions, passing over locked ones
CREATE OR REPLACE FUNCTION :"schema".put_off_marked(p_tenant uuid, p_catalog text, p_limit integer) RETURNS void
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    UPDATE job_additions x SET run_after = clock_timestamp() + interval '1 minute'
     WHERE x.ctid = ANY (ARRAY(SELECT a.ctid FROM job_additions a WHERE a.tenant_id = p_tenant AND a.catalog_id = p_catalog AND a.marked
                                LIMIT p_limit FOR UPDATE SKIP LOCKED));
EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses that, too
    RAISE WARNING 'additions of catalog % can''t be put off: %', left(p_catalog, 100), SQLERRM;
END $$;
COMMENT ON FUNCTION :"schema".put_off_marked IS 'Internal: has additions that can''t be reserved wait for a minute.';

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
                AND a.id = ANY (ARRAY(SELECT m.id FROM job_additions m WHERE m.marked ORDER BY m.run_after, m.id LIMIT 1000))
                AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id
                                                     AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
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
                        PERFORM put_off_marked(r.tenant_id, r.catalog_id, NULL);
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
    IF a.job_id IS NULL OR NOT was_given(a.job_id) OR EXISTS (SELECT FROM jobs j WHERE j.id = a.job_id) THEN -- nobody was told it
        job := nextval(pg_get_serial_sequence(format('%I.jobs', :'schema'), 'id'));
    ELSE
        job := a.job_id;
    END IF;
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
