-- Leases: an active refresh belongs to one process, which says so again and again; when it falls silent, to another.

DO $$
DECLARE
    old regprocedure;
BEGIN
    -- A function's arguments can't be changed in its place. What was granted on it by name has to be granted again.
    FOR old IN SELECT p.oid::regprocedure FROM pg_proc p
                WHERE p.pronamespace = quote_ident(:'schema')::regnamespace
                  AND (p.proname = 'extend_refreshes' AND NOT 'extended' = ANY (p.proargnames)
                       OR p.proname = 'hand_back_refreshes' AND NOT 'p_begun' = ANY (p.proargnames)) LOOP
        EXECUTE format('DROP FUNCTION %s', old);
    END LOOP;
END $$;

-- extend_refreshes: the heartbeat of all refreshes that a process holds, in one statement. A row that somebody has locked is
-- passed over: it is neither lost nor extended, and the next heartbeat comes well before the lease ends. If that one passes it
-- over too, and all others, its lease ends: another may take it over as soon as the lock is gone.
-- returns: extended   those whose leases are extended
--          lost       those that are not ACTIVE under these tokens
-- locks: the refreshes' rows (tried), in order of id
CREATE OR REPLACE FUNCTION :"schema".extend_refreshes(
    p_ids bigint[], p_tokens uuid[], p_lease_ms integer, OUT extended bigint[], OUT lost bigint[])
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
BEGIN
    WITH held AS (
        SELECT h.id, h.token FROM unnest(p_ids, p_tokens) h(id, token)
    ), mine AS (
        SELECT r.id FROM refreshes r JOIN held ON held.id = r.id AND held.token = r.lock_token
         WHERE r.status = 'ACTIVE' ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
    ), moved AS (
        UPDATE refreshes r SET lease_expires_at = at + p_lease_ms * interval '1 ms', updated_at = at
          FROM mine WHERE r.id = mine.id
        RETURNING r.id
    )
    SELECT coalesce((SELECT array_agg(moved.id) FROM moved), '{}'), coalesce(array_agg(held.id), '{}') INTO extended, lost FROM held
     WHERE NOT EXISTS (SELECT FROM refreshes r WHERE r.id = held.id AND r.status = 'ACTIVE' AND r.lock_token = held.token);
END $$;
COMMENT ON FUNCTION :"schema".extend_refreshes IS 'For workers: extends the leases of refreshes; says which are extended and which lost.';

-- take_over_refreshes: up to p_limit refreshes whose lease has ended go on here, under new tokens, after the ids that are
-- dealt with already. That counts for nothing yet: see begin_refresh.
-- $1 the worker  $2 lease in ms  $3 at most so many  $4 of leases that ended in the last so many ms; NULL: at any time
-- returns: the refreshes, the oldest lease first
-- locks: their rows, passing over locked ones. Lives from refreshes_lease_idx, of which it reads all dead entries of that time
DROP FUNCTION IF EXISTS :"schema".take_over_refreshes(uuid, integer, integer);
CREATE OR REPLACE FUNCTION :"schema".take_over_refreshes(p_worker uuid, p_lease_ms integer, p_limit integer, p_within_ms bigint DEFAULT NULL)
    RETURNS TABLE (id bigint, lock_token uuid, job_id bigint, tenant_id uuid, catalog_id text, scope text, listed boolean,
                   product_ids jsonb, done_count integer, failed_count integer, attempts integer, trace_id text, operated_by uuid)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at    constant timestamptz := clock_timestamp();
    since constant timestamptz := coalesce(at - p_within_ms * interval '1 ms', '-infinity');
BEGIN
    RETURN QUERY
    WITH expired AS (
        SELECT r.id FROM refreshes r WHERE r.status = 'ACTIVE' AND r.lease_expires_at >= since AND r.lease_expires_at <= at
         ORDER BY r.lease_expires_at, r.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), mine AS (
        UPDATE refreshes r
           SET lock_token = gen_random_uuid(), worker_id = p_worker, updated_at = at,
               lease_expires_at = at + p_lease_ms * interval '1 ms'
          FROM expired WHERE r.id = expired.id
        RETURNING r.*
    )
    SELECT m.id, m.lock_token, m.job_id, m.tenant_id, m.catalog_id, m.scope, m.listed, m.product_ids, m.done_count,
           m.failed_count, m.attempts, m.trace_id, m.operated_by
      FROM mine m ORDER BY m.id;
END $$;
COMMENT ON FUNCTION :"schema".take_over_refreshes IS 'For workers: takes over refreshes whose lease has ended.';

-- begin_refresh: the run of a refresh that was taken over begins, which counts: what its workers die of is given up in the end.
-- What is still waiting for its turn when its worker dies has not begun, and is not charged for it. Said again, after an answer
-- got lost, it writes the same.
-- $1 refresh  $2 its token  $3 attempts, with this one
-- returns: false when the refresh is lost (not ACTIVE under this token): nothing was written
-- locks: the refresh's row
CREATE OR REPLACE FUNCTION :"schema".begin_refresh(p_id bigint, p_token uuid, p_attempts integer) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE refreshes r SET attempts = p_attempts, updated_at = clock_timestamp()
     WHERE r.id = p_id AND r.status = 'ACTIVE' AND r.lock_token = p_token;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION :"schema".begin_refresh IS 'For workers: counts the run of a refresh that was taken over.';
COMMENT ON COLUMN :"schema".refreshes.attempts IS 'How often a worker that had taken it over began to run it since it last made progress.';

-- hand_back_refreshes: at a shutdown, leases end now, and the workers are told to look. The token is a new one that nobody
-- knows, so that the old holder is fenced off. A row that somebody has locked is passed over, or it would keep all others.
-- $1 refreshes  $2 their tokens  $3 those of them whose run was counted by begin_refresh: the shutdown is not their fault
-- returns: how many were handed back; the others are lost, or somebody holds their row's lock: ask again, all of them
-- locks: the refreshes' rows (tried), in order of id
CREATE OR REPLACE FUNCTION :"schema".hand_back_refreshes(p_ids bigint[], p_tokens uuid[], p_begun bigint[] DEFAULT '{}') RETURNS integer
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
    n  integer;
BEGIN
    WITH mine AS (
        SELECT r.id FROM refreshes r JOIN unnest(p_ids, p_tokens) h(id, token) ON h.id = r.id AND h.token = r.lock_token
         WHERE r.status = 'ACTIVE' ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
    )
    UPDATE refreshes r SET lock_token = gen_random_uuid(), lease_expires_at = at, worker_id = NULL, updated_at = at,
           attempts = greatest(r.attempts - (r.id = ANY (p_begun))::integer, 0)
      FROM mine WHERE r.id = mine.id;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM pg_notify(channel(), '{}');
    END IF;
    RETURN n;
END $$;
COMMENT ON FUNCTION :"schema".hand_back_refreshes IS 'For workers: ends the leases of refreshes at a shutdown, so that another worker goes on at once.';
