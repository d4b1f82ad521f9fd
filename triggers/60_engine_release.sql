-- Release: a refresh ends, its products are free again, and who waited for them is woken.

-- release_refresh: ACTIVE → DONE, or DONE_WITH_ERRORS. What failed becomes one dead letter: a FAILED job with the ids, which
-- replay brings back. The catalog's waiting job is due at once.
-- $1 refresh  $2 its token  $3 prices recomputed since the last progress  $4 what failed since, [{"id", "error"}, …]
-- $5 why it is given up: everything after the first $6 ids has failed too; NULL when it has come to its end
-- $6 how many ids, from the first on, are dealt with; with $5 NULL all are
-- returns: outcome   done, or lost (not ACTIVE under this token: nothing done)
--          dead_letter_id   the job, if anything failed
--          waiters          how many jobs were refused because of it
-- locks, in this order: the refresh's row; the waiting job's row (tried) and its additions (tried, see wake_catalog)
CREATE OR REPLACE FUNCTION :"schema".release_refresh(
    p_id bigint, p_token uuid, p_recomputed bigint DEFAULT 0, p_failed jsonb DEFAULT '[]', p_error text DEFAULT NULL,
    p_done integer DEFAULT NULL, OUT outcome text, OUT dead_letter_id bigint, OUT waiters integer)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at     timestamptz;
    r      record;
    misses jsonb;
    ids    jsonb;
    n      integer := 0;
    why    text := left(p_error, 2000);
BEGIN
    LOCK TABLE jobs, job_additions IN ACCESS SHARE MODE; -- in the order of a migration, or each would wait for the other
    SELECT x.tenant_id, x.catalog_id, x.listed, x.failed, x.product_count, x.done_count, x.refused, x.trace_id, x.operated_by
      INTO r FROM refreshes x
     WHERE x.id = p_id AND x.status = 'ACTIVE' AND x.lock_token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'lost';
        RETURN;
    END IF;
    outcome := 'done';
    waiters := r.refused;
    misses := r.failed || p_failed;
    IF misses <> '[]' OR p_error IS NOT NULL THEN
        SELECT coalesce(jsonb_agg(f.e -> 'id' ORDER BY f.o), '[]') INTO ids FROM jsonb_array_elements(misses) WITH ORDINALITY f(e, o);
        IF p_error IS NOT NULL THEN
            SELECT ids || coalesce(jsonb_agg(p.e ORDER BY p.o), '[]') INTO ids
              FROM refreshes x, jsonb_array_elements(x.product_ids) WITH ORDINALITY p(e, o)
             WHERE x.id = p_id AND p.o > coalesce(p_done, r.done_count);
        END IF;
        n := jsonb_array_length(ids);
        why := CASE WHEN p_error IS NOT NULL AND NOT r.listed THEN format('the catalog could not be recomputed: %s', why)
                    WHEN NOT r.listed THEN format('%s products of the catalog could not be recomputed; the first, %s: %s', n,
                                misses -> 0 ->> 'id', coalesce(misses -> 0 ->> 'error', 'no reason given'))
                    WHEN p_error IS NOT NULL THEN format('%s of %s products could not be recomputed: %s', n, r.product_count, why)
                    ELSE format('%s of %s products could not be recomputed; the first, %s: %s', n, r.product_count,
                                misses -> 0 ->> 'id', coalesce(misses -> 0 ->> 'error', 'no reason given')) END;
        misses := jsonb_path_query_array(misses, '$[0 to 99]');
    END IF;
    at := clock_timestamp();
    UPDATE refreshes x
       SET status = CASE WHEN n > 0 OR p_error IS NOT NULL THEN 'DONE_WITH_ERRORS' ELSE 'DONE' END, lock_token = NULL,
           lease_expires_at = NULL, worker_id = NULL, recomputed = x.recomputed + least(p_recomputed, 9223372036854775807 - x.recomputed), failed = misses,
           failed_count = n, error = left(p_error, 2000),
           done_count = CASE WHEN p_error IS NULL THEN x.product_count ELSE coalesce(p_done, x.done_count) END,
           started_at = coalesce(x.started_at, at), finished_at = at, updated_at = at
     WHERE x.id = p_id;
    IF n > 0 OR p_error IS NOT NULL THEN
        INSERT INTO jobs (tenant_id, type, operated_by, trace_id, status, config, result, error, max_attempts, finished_at)
        VALUES (r.tenant_id, 'PRICE_REFRESH', r.operated_by, r.trace_id, 'FAILED',
                jsonb_build_object('catalogId', r.catalog_id, 'productIds', ids)
                || CASE WHEN p_error IS NOT NULL AND NOT r.listed THEN '{"full": true}'::jsonb ELSE '{}' END,
                jsonb_build_object('refreshId', p_id, 'failed', jsonb_path_query_array(misses, '$[0 to 19]'), 'failedCount', n),
                left(why, 8000), 100, at)
        RETURNING jobs.id INTO dead_letter_id;
        IF NOT FOUND THEN -- or what failed would be gone: so the refresh stays, and its release is tried again
            RAISE EXCEPTION 'the dead letter of refresh % can''t be written: a trigger of yours on jobs suppresses the INSERT', p_id
                USING ERRCODE = 'triggered_action_exception', HINT = 'Let it pass over PRICE_REFRESH jobs.';
        END IF;
    END IF;
    PERFORM wake_catalog(r.tenant_id, r.catalog_id);
END $$;
COMMENT ON FUNCTION :"schema".release_refresh IS 'For workers: ends a refresh; what failed becomes a dead letter, who waited for the products is due at once.';

-- wake_catalog: what waits in a catalog for its back-off is due at once, which notifies. A job that its client delayed has no
-- attempt behind it and stays; one that was refused because of a refresh that is still active stays too, or every release
-- in a busy catalog would cost it an attempt.
-- Nothing is waited for: a row that is locked is being reserved, concluded or cancelled right now, or is held by a person,
-- and then the job's own back-off is the net.
-- returns: whether anything is due earlier now
-- locks: the waiting job's row, its additions (both tried)
CREATE OR REPLACE FUNCTION :"schema".wake_catalog(p_tenant uuid, p_catalog text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
    w  record;
    n  bigint;
BEGIN
    SELECT j.id, j.attempts, j.successor, j.run_after, j.result -> 'refusedBy' AS refused_by INTO w FROM jobs j
     WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH'
       FOR UPDATE SKIP LOCKED;
    IF FOUND AND (w.run_after <= at OR (w.attempts = 0 AND NOT w.successor)) THEN
        RETURN false;
    ELSIF FOUND AND NOT w.successor THEN
        IF EXISTS (SELECT FROM refreshes r WHERE r.tenant_id = p_tenant AND r.catalog_id = p_catalog AND r.status = 'ACTIVE'
                                             AND to_jsonb(r.id) = w.refused_by) THEN
            RETURN false;
        END IF;
        UPDATE jobs j SET run_after = at, updated_at = at WHERE j.id = w.id;
        RETURN true;
    END IF;
    -- Refused ids that joined a successor, or that wait for no job at all (marked), carry their back-off themselves. Without
    -- the waiting job's row in our hands, unmarked ones are let be: a reservation of that job may be folding them right now.
    UPDATE job_additions a SET run_after = '-infinity'
      FROM (SELECT x.id FROM job_additions x
             WHERE x.tenant_id = p_tenant AND x.catalog_id = p_catalog AND x.from_job_id IS NOT NULL AND x.run_after > at
               AND (x.marked OR w.id IS NOT NULL)
               FOR UPDATE SKIP LOCKED) late
     WHERE a.tenant_id = p_tenant AND a.catalog_id = p_catalog AND a.id = late.id;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 AND w.id IS NOT NULL THEN
        UPDATE jobs j SET run_after = at, updated_at = at WHERE j.id = w.id;
    ELSIF n > 0 AND somebody_sleeps() THEN
        PERFORM announce('PRICE_REFRESH', p_tenant, p_catalog, NULL);
    END IF;
    RETURN n > 0;
END $$;
COMMENT ON FUNCTION :"schema".wake_catalog IS 'For workers: ends the back-off of what waits in a catalog.';
