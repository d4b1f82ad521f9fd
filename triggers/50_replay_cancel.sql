-- Operations on a job by hand: replay a dead letter, cancel what waits or runs.

-- replay: FAILED → PENDING with its attempts at zero, or merged into the catalog's waiting job, through the one door.
-- returns: outcome requeued, merged, busy (somebody holds the row's lock), not_failed or not_found; the job that waits now
-- locks: as requeue
CREATE OR REPLACE FUNCTION :"schema".replay(job_id bigint, OUT waiting_job_id bigint, OUT outcome text)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
BEGIN
    SELECT q.outcome, coalesce(q.merged_into, CASE q.outcome WHEN 'requeued' THEN job_id END) INTO outcome, waiting_job_id
      FROM requeue(job_id, 'replayed', NULL, NULL, jsonb_build_object('replayedAt', clock_timestamp())) q;
    IF outcome = 'lost' THEN
        outcome := CASE WHEN EXISTS (SELECT FROM jobs j WHERE j.id = job_id) THEN 'not_failed' ELSE 'not_found' END;
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".replay IS 'Brings a FAILED job back: it waits again, or its ids join the catalog''s waiting job.';

-- cancel: PENDING or RUNNING → FAILED with error "cancelled"; its ids are kept, so replay undoes it. A PRICE_REFRESH takes
-- the ids along that have joined it; ids that are being added meanwhile wait in a successor, which the next worker that finds
-- nothing to fold removes. The worker of a RUNNING job loses its token and stops.
-- returns: cancelled, finished (it had ended already) or not_found
-- locks, in this order: the job's row (waited for: a reservation or a conclusion is short); additions. Not the catalog: who
--        had its lock exclusively could leave out the successor, but a client may keep this transaction open for as long as
--        it likes, and every enqueue of the catalog would wait for it.
CREATE OR REPLACE FUNCTION :"schema".cancel(job_id bigint, OUT outcome text)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
    r  record;
    f  record;
BEGIN
    -- An ended job is not even locked: it may have to learn whom it was merged into.
    SELECT CASE WHEN j.status IN ('PENDING', 'RUNNING') THEN NULL ELSE 'finished' END INTO outcome FROM jobs j WHERE j.id = job_id;
    IF outcome IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT j.tenant_id, j.catalog_id, j.type, j.status, CASE WHEN j.type = 'PRICE_REFRESH' THEN j.config -> 'productIds' END AS ids
      INTO r FROM jobs j WHERE j.id = job_id FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'not_found';
        RETURN;
    ELSIF r.status NOT IN ('PENDING', 'RUNNING') THEN
        outcome := 'finished';
        RETURN;
    END IF;
    outcome := 'cancelled';
    IF r.status = 'PENDING' AND r.type = 'PRICE_REFRESH' THEN
        SELECT * INTO f FROM fold(r.tenant_id, r.catalog_id, job_id, r.ids, 2147483647);
        UPDATE jobs j SET config = j.config || jsonb_build_object('productIds', f.ids) || CASE WHEN f.full_refresh THEN '{"full": true}'::jsonb ELSE '{}' END,
               successor = false
         WHERE j.id = job_id AND (f.taken > 0 OR j.successor);
    END IF;
    UPDATE jobs j SET status = 'FAILED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, error = 'cancelled',
           finished_at = at, updated_at = at,
           duration_ms = CASE WHEN r.status = 'RUNNING' THEN greatest(0, extract(epoch FROM at - j.started_at) * 1000) END
     WHERE j.id = job_id;
    IF r.status = 'PENDING' AND r.type = 'PRICE_REFRESH' THEN
        PERFORM leave_successor(r.tenant_id, r.catalog_id, at + interval '10 ms');
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".cancel IS 'Ends a waiting or running job as FAILED with error "cancelled"; replay brings it back.';
