-- How reserve takes a PRICE_REFRESH that does not stand alone: with the additions that joined it, and with a successor for those
-- that are still under way.

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
        SELECT count(*) AS n, bool_and(a.from_job_id IS NOT NULL) AS all_requeued, min(a.run_after) AS due, max(a.max_attempts) AS most INTO w
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
        r.max_attempts := w.most;
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
    UPDATE jobs j SET status = 'RUNNING', successor = false, lock_token = gen_random_uuid(), worker_id = p_worker, max_attempts = r.max_attempts,
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

-- leave_successor: an empty PENDING job in the place of the one that this transaction has just reserved.
-- locks: nothing; the place in the unique index is this transaction's own
CREATE OR REPLACE FUNCTION :"schema".leave_successor(p_tenant uuid, p_catalog text, p_run_after timestamptz) RETURNS void
    LANGUAGE sql SET search_path = :"schema", pg_temp AS $$
    INSERT INTO jobs (tenant_id, type, config, successor, max_attempts, run_after, updated_at)
    VALUES (p_tenant, 'PRICE_REFRESH', jsonb_build_object('catalogId', p_catalog, 'productIds', '[]'::jsonb), true, 100,
            p_run_after, clock_timestamp());
$$;
COMMENT ON FUNCTION :"schema".leave_successor IS 'Internal: leaves the empty job that additions still under way will find.';
