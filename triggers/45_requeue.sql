-- requeue: the one door back to PENDING, for a refusal, a failed attempt, a lease that ended, a shutdown and a replay.
-- $1 job  $2 cause: refused, failed, permanent, released (by the token's holder), rescued, replayed  $3 the token
-- $4 why  $5 JSON object, merged into result  $6 delay in ms  $7 attempt limit, if below the job's own
-- returns: outcome   requeued   PENDING again
--                    merged     its ids joined the catalog's waiting job, it is COMPLETED with mergedIntoJobId
--                    dead       FAILED with its ids: the attempt limit, or a permanent failure
--                    busy       somebody holds the row's lock: nothing done, try again
--                    lost       not RUNNING under this token (or: no lease that ended, not FAILED): nothing done
-- locks, in this order: the job's row (tried); those of was_let_lie; catalog (tried, exclusive; see may_return for a replay); else as
--        add_price_refresh. Of the row, nothing else is locked, and nobody's open transaction is
--        waited for, but for a plain INSERT's in the moment in which a merge creates the waiting job.
CREATE OR REPLACE FUNCTION :"schema".requeue(
    p_id bigint, p_cause text, p_token uuid, p_error text DEFAULT NULL, p_note jsonb DEFAULT '{}', p_delay_ms bigint DEFAULT 0,
    p_limit integer DEFAULT NULL, OUT outcome text, OUT merged_into bigint)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at    constant timestamptz := clock_timestamp();
    a     record;
    note  jsonb := coalesce(p_note, '{}');
    tries integer;
    due   timestamptz;
    unstarted boolean := false; -- it was handed to a worker that lives, and has never been started
BEGIN
    SELECT j.id, j.lock_token, j.type, j.tenant_id, j.catalog_id, j.status, j.attempts, j.max_attempts, j.operated_by, j.trace_id, j.started_at,
           CASE WHEN j.type = 'PRICE_REFRESH' THEN j.config END AS config
      INTO a FROM jobs j
     WHERE j.id = p_id AND CASE p_cause WHEN 'replayed' THEN j.status = 'FAILED'
                                        WHEN 'rescued' THEN j.status = 'RUNNING' AND j.lease_expires_at <= at
                                        ELSE j.status = 'RUNNING' AND j.lock_token = p_token END
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM jobs j
          WHERE j.id = p_id AND CASE p_cause WHEN 'replayed' THEN j.status = 'FAILED'
                                             WHEN 'rescued' THEN j.status = 'RUNNING' AND j.lease_expires_at <= at
                                             ELSE j.status = 'RUNNING' AND j.lock_token = p_token END;
        outcome := CASE WHEN FOUND THEN 'busy' ELSE 'lost' END;
        RETURN;
    END IF;
    IF p_cause = 'rescued' AND was_let_lie(p_id, a.lock_token) THEN
        PERFORM pg_sleep(0.002);
        unstarted := has_hands(handed_key(a.lock_token));
    END IF;
    IF p_cause = 'permanent' OR (NOT unstarted AND p_cause IN ('refused', 'failed', 'rescued') AND a.attempts >= least(a.max_attempts, nullif(p_limit, 0))) THEN
        UPDATE jobs j SET status = 'FAILED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL,
               error = left(p_error, 8000), result = j.result || note, finished_at = at, updated_at = at,
               duration_ms = greatest(0, extract(epoch FROM at - j.started_at) * 1000)
         WHERE j.id = p_id;
        PERFORM check_updated(p_id, FOUND);
        outcome := 'dead';
        RETURN;
    END IF;
    -- A release costs no attempt, nor does what never started; a replay begins anew.
    tries := CASE WHEN p_cause = 'replayed' THEN 0 WHEN unstarted OR p_cause = 'released' THEN greatest(a.attempts - 1, 0) ELSE a.attempts END;
    due := at + least(greatest(p_delay_ms, 0), 315360000000) * interval '1 ms';
    IF a.type <> 'PRICE_REFRESH' OR may_return(a.tenant_id, a.catalog_id, p_cause = 'replayed') THEN
        IF return_job(p_id, p_cause = 'replayed', tries, due, p_error, note) THEN
            outcome := 'requeued';
            RETURN;
        END IF;
    END IF;
    SELECT e.job_id INTO merged_into
      FROM add_price_refresh(a.tenant_id, a.catalog_id, a.config -> 'productIds', coalesce(a.config -> 'full' = 'true', false),
                             a.operated_by, a.trace_id, due, a.id, tries, a.max_attempts) e;
    UPDATE jobs j SET status = 'COMPLETED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL,
           error = left(p_error, 8000),
           -- NULL while the ids wait as a marked addition: who takes them writes its id here.
           result = j.result || note || CASE WHEN merged_into IS NULL THEN '{}' ELSE jsonb_build_object('mergedIntoJobId', merged_into) END,
           finished_at = at, updated_at = at, duration_ms = greatest(0, extract(epoch FROM at - j.started_at) * 1000)
     WHERE j.id = p_id;
    PERFORM check_updated(p_id, FOUND); -- or its ids would be added once more by the next try
    outcome := 'merged';
END $$;
COMMENT ON FUNCTION :"schema".requeue IS 'For workers: the one door back to PENDING; merges where a newer job of the catalog waits.';

-- return_job: RUNNING or FAILED → PENDING.
-- returns: false for a client whose job met, on the unique index, a plain INSERT that could not get "creating": nothing done
-- locks: for a client, that INSERT's transaction may be waited for
CREATE OR REPLACE FUNCTION :"schema".return_job(
    p_id bigint, p_client boolean, p_attempts integer, p_run_after timestamptz, p_error text, p_note jsonb) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
BEGIN
    IF p_client THEN
        BEGIN
            RETURN return_job(p_id, false, p_attempts, p_run_after, p_error, p_note);
        EXCEPTION WHEN unique_violation THEN
            RETURN false;
        END;
    END IF;
    UPDATE jobs j SET status = 'PENDING', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, finished_at = NULL,
           duration_ms = NULL, attempts = p_attempts, run_after = p_run_after, error = left(p_error, 8000),
           result = j.result || p_note, updated_at = at
     WHERE j.id = p_id;
    PERFORM check_updated(p_id, FOUND);
    RETURN true;
END $$;
COMMENT ON FUNCTION :"schema".return_job IS 'Internal: makes a job PENDING again.';

-- check_updated: a job whose row is locked is there, so an UPDATE that found none was suppressed (RETURN NULL).
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".check_updated(p_id bigint, p_found boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF NOT p_found THEN
        RAISE EXCEPTION 'job % can''t be returned: a trigger of yours on jobs suppresses the UPDATE', p_id
            USING ERRCODE = 'triggered_action_exception', HINT = 'Let it raise an error, or let the job pass.';
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".check_updated IS 'Internal: raises 09000 for an UPDATE of a job that a trigger of the user''s has suppressed.';

-- may_return: true when a job may become its catalog's PENDING job: nobody is adding to the catalog, and nothing waits.
-- Lock first, look second: two statements, so that the second one's snapshot is younger than the lock.
-- A worker's transaction is this call, and takes the catalog alone. A client's (a replay) may stay open for as long as it
-- likes, so it goes the way of a first enqueue, which holds up nobody.
-- locks: catalog (tried, exclusive), or for a client catalog (shared; waits only for workers), creating (tried), beside (tried, and let
--        go at once)
CREATE OR REPLACE FUNCTION :"schema".may_return(p_tenant uuid, p_catalog text, p_client boolean) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    stripe constant integer := catalog_stripe(p_tenant, p_catalog);
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN false; -- an old snapshot shows nothing: join as a marked addition
    END IF;
    IF p_client THEN
        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);
        IF NOT (pg_try_advisory_xact_lock(1853292546, stripe)
                AND pg_try_advisory_lock(1853292552, stripe) AND pg_advisory_unlock(1853292552, stripe)) THEN
            RETURN false;
        END IF;
    ELSIF NOT pg_try_advisory_xact_lock(1853292545, stripe) THEN
        RETURN false;
    END IF;
    RETURN NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog
                                            AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH');
END $$;
COMMENT ON FUNCTION :"schema".may_return IS 'Internal: whether a job may become its catalog''s waiting job again.';
