-- Variant cte: one statement merges the job into the one that waits and closes it; where none waited, a second statement
-- returns it to PENDING. A job that is committed between the two makes the second fail with 23505, which leaves the job
-- RUNNING for the next rescue: the race that the default variant closes.
-- parameters and returns: as in the default variant
-- locks, in this order: the job's row, the waiting job's row (waited for), the unique index (waited for)
CREATE OR REPLACE FUNCTION :"schema".requeue(
    p_id bigint, p_cause text, p_token uuid, p_error text DEFAULT NULL, p_note jsonb DEFAULT '{}', p_delay_ms bigint DEFAULT 0,
    p_limit integer DEFAULT NULL, OUT outcome text, OUT merged_into bigint)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    at   constant timestamptz := clock_timestamp();
    note constant jsonb := coalesce(p_note, '{}');
    a    record;
BEGIN
    SELECT j.type, j.attempts, j.max_attempts INTO a FROM jobs j
     WHERE j.id = p_id AND CASE p_cause WHEN 'replayed' THEN j.status = 'FAILED'
                                        WHEN 'rescued' THEN j.status = 'RUNNING' AND j.lease_expires_at <= at
                                        ELSE j.status = 'RUNNING' AND j.lock_token = p_token END
       FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'lost';
        RETURN;
    END IF;
    IF p_cause = 'permanent' OR (p_cause IN ('refused', 'failed', 'rescued') AND a.attempts >= least(a.max_attempts, nullif(p_limit, 0))) THEN
        UPDATE jobs j SET status = 'FAILED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL,
               error = left(p_error, 8000), result = j.result || note, finished_at = at, updated_at = at,
               duration_ms = greatest(0, extract(epoch FROM at - j.started_at) * 1000)
         WHERE j.id = p_id;
        PERFORM check_updated(p_id, FOUND);
        outcome := 'dead';
        RETURN;
    END IF;
    WITH mine AS (
        SELECT j.id, j.tenant_id, j.catalog_id, j.config FROM jobs j WHERE j.id = p_id AND j.type = 'PRICE_REFRESH'
    ), waiting AS (
        UPDATE jobs w SET config = w.config || jsonb_build_object('productIds', merged_ids(w.config -> 'productIds', mine.config -> 'productIds'))
                            || CASE WHEN mine.config -> 'full' = 'true' THEN '{"full": true}'::jsonb ELSE '{}' END,
               successor = false, updated_at = at
          FROM mine
         WHERE w.status = 'PENDING' AND w.type = 'PRICE_REFRESH' AND w.tenant_id = mine.tenant_id AND w.catalog_id = mine.catalog_id
        RETURNING w.id
    )
    UPDATE jobs j SET status = 'COMPLETED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, error = left(p_error, 8000),
           result = j.result || note || jsonb_build_object('mergedIntoJobId', waiting.id), finished_at = at, updated_at = at,
           duration_ms = greatest(0, extract(epoch FROM at - j.started_at) * 1000)
      FROM waiting WHERE j.id = p_id
    RETURNING waiting.id INTO merged_into;
    IF FOUND THEN
        outcome := 'merged';
        RETURN;
    END IF;
    UPDATE jobs j SET status = 'PENDING', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, finished_at = NULL,
           duration_ms = NULL, error = left(p_error, 8000), result = j.result || note, updated_at = at,
           attempts = CASE p_cause WHEN 'released' THEN greatest(j.attempts - 1, 0) WHEN 'replayed' THEN 0 ELSE j.attempts END,
           run_after = at + least(greatest(p_delay_ms, 0), 315360000000) * interval '1 ms'
     WHERE j.id = p_id;
    PERFORM check_updated(p_id, FOUND);
    outcome := 'requeued';
END $$;
