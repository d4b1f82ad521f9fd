-- What the holder of a lock token does with a RUNNING job. A row has a token exactly while it is RUNNING, so its status is not
-- asked for: that would invite a plan that reads the index of all RUNNING rows, dead entries included, where the primary key
-- finds each row at once. Plans are made once a session, maybe when the table was small, so they may not read it whole: rows are
-- found by the primary key, through an array in a sub-select for the reason that reserve gives, and joined by a hash. (A nested
-- loop would prepare the array anew for each row.)

-- complete: RUNNING → COMPLETED or COMPLETED_WITH_ERRORS, many at once, each for the holder of its token.
-- $1 ids  $2 lock tokens  $3 with errors  $4 results, JSON objects, merged into result
-- returns: the ids that are concluded; the others are lost, or somebody holds their row's lock
-- locks: those rows in id order, passing over locked ones: one row that psql has locked must not hold up the others
CREATE OR REPLACE FUNCTION :"schema".complete(p_ids bigint[], p_tokens uuid[], p_errors boolean[], p_results jsonb[]) RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY
    WITH mine AS MATERIALIZED (
        SELECT j.id, a.errors, a.result
          FROM unnest(p_ids, p_tokens, p_errors, p_results) AS a (id, token, errors, result)
          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token
         WHERE j.id = ANY ((SELECT p_ids)::bigint[])
         ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
    )
    UPDATE jobs j
       SET status = CASE WHEN m.errors THEN 'COMPLETED_WITH_ERRORS' ELSE 'COMPLETED' END,
           result = j.result || m.result, error = NULL, lock_token = NULL, lease_expires_at = NULL, worker_id = NULL,
           finished_at = clock_timestamp(), updated_at = clock_timestamp(),
           duration_ms = greatest(0, extract(epoch FROM clock_timestamp() - j.started_at) * 1000)
      FROM mine m
     WHERE j.id = m.id AND j.id = ANY ((SELECT p_ids)::bigint[])
    RETURNING j.id;
END $$;
COMMENT ON FUNCTION :"schema".complete IS 'For workers: ends jobs well, for the holders of their tokens.';

-- extend: the heartbeat, for all jobs of a process in one statement.
-- $1 ids  $2 lock tokens  $3 leases in ms
-- returns: the ids extended; the others are lost, or somebody holds their row's lock
-- locks: those rows in id order, passing over locked ones
CREATE OR REPLACE FUNCTION :"schema".extend(p_ids bigint[], p_tokens uuid[], p_leases bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY
    WITH mine AS MATERIALIZED (
        SELECT j.id, a.lease_ms
          FROM unnest(p_ids, p_tokens, p_leases) AS a (id, token, lease_ms)
          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token
         WHERE j.id = ANY ((SELECT p_ids)::bigint[])
         ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
    )
    UPDATE jobs j
       SET lease_expires_at = clock_timestamp() + m.lease_ms * interval '1 ms', updated_at = clock_timestamp()
      FROM mine m
     WHERE j.id = m.id AND j.id = ANY ((SELECT p_ids)::bigint[])
    RETURNING j.id;
END $$;
COMMENT ON FUNCTION :"schema".extend IS 'For workers: extends leases, for the holders of the tokens.';

-- held: which of these jobs are still RUNNING under these tokens.
-- $1 ids  $2 lock tokens        returns: ids
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".held(p_ids bigint[], p_tokens uuid[]) RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY
    SELECT j.id
      FROM unnest(p_ids, p_tokens) AS a (id, token)
      JOIN jobs j ON j.id = a.id AND j.lock_token = a.token
     WHERE j.id = ANY ((SELECT p_ids)::bigint[]);
END $$;
COMMENT ON FUNCTION :"schema".held IS 'For workers: which jobs are still held under these tokens.';

-- progress: merges into the result of a RUNNING job, for the holder of the token.
-- $1 id  $2 lock token  $3 JSON object        returns: whether it was still held
-- locks: that row only; touches no indexed column, so it can be HOT
CREATE OR REPLACE FUNCTION :"schema".progress(p_id bigint, p_token uuid, p_result jsonb) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs j SET result = j.result || p_result, updated_at = clock_timestamp()
     WHERE j.id = p_id AND j.lock_token = p_token;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION :"schema".progress IS 'For workers: notes how far a job is, for the holder of its token.';

-- expired: jobs whose lease has ended, the longest ended first.
-- $1 at most so many  $2 but for these, which could not be rescued: else they would hide those behind them
-- $3 of leases that ended in the last so many ms; NULL: at any time
-- returns: id, type, attempts, attempt limit, worker
-- locks: nothing; each is rescued by a call of its own. Lives from jobs_lease_idx, of which it reads all dead entries of that time
DROP FUNCTION IF EXISTS :"schema".expired(integer);
DROP FUNCTION IF EXISTS :"schema".expired(integer, bigint[]);
CREATE OR REPLACE FUNCTION :"schema".expired(p_limit integer, p_passed bigint[] DEFAULT '{}', p_within_ms bigint DEFAULT NULL)
    RETURNS TABLE (id bigint, type text, attempts integer, max_attempts integer, worker_id text)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at    constant timestamptz := clock_timestamp();
    since constant timestamptz := coalesce(at - p_within_ms * interval '1 ms', '-infinity');
BEGIN
    RETURN QUERY
    SELECT j.id, j.type, j.attempts, j.max_attempts, j.worker_id::text
      FROM jobs j
     WHERE j.status = 'RUNNING' AND j.lease_expires_at >= since AND j.lease_expires_at <= at
       AND j.id NOT IN (SELECT unnest(p_passed))
     ORDER BY j.lease_expires_at LIMIT p_limit;
END $$;
COMMENT ON FUNCTION :"schema".expired IS 'For workers: jobs to be rescued.';
