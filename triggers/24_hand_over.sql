-- Handing over: while a worker sleeps, the commit that enqueues a job gives it to that worker itself. The job becomes RUNNING in the
-- client's own commit, with the worker's lease and a lock token, and the notification says whose it is. So nothing has to be written
-- between the commit and the start: the worker takes what it was handed by a lock in memory and a look at one row, on the session that
-- hears of it (internal/queue/sql/take_lock.sql and take_look.sql).
--
-- A worker that was handed a job may have frozen. So others who hear of it look after a moment, and take it over if it was not
-- taken. "Taken" is a lock that the worker's session holds for as long as it has the job, see below. Whoever has frozen before it
-- took the job, finds it gone when it thaws; whoever has taken it can't lose it but by its lease. When the session ends, by a
-- killed process or a restarted server, nobody can tell any more whether it was taken: then the lease counts, as for any job.
--
-- The token of a handed job is a UUID of version 8 whose last four bytes are the key of that session. So who takes it over trusts
-- no notification, which anybody may send, but the row alone.

-- handed_key: the key of the session that a job was handed to; NULL when it was reserved by a look.
CREATE OR REPLACE FUNCTION :"schema".handed_key(token uuid) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN substr(token::text, 15, 1) = '8' THEN ('x' || right(token::text, 8))::bit(32)::integer END;
COMMENT ON FUNCTION :"schema".handed_key IS 'Internal: which session a RUNNING job was handed to, by its lock token; NULL: none.';

-- taken_key: the advisory lock of a job that was handed over.
CREATE OR REPLACE FUNCTION :"schema".taken_key(job bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashint8extended(job, hashtextextended(:'schema', 1853292551));
COMMENT ON FUNCTION :"schema".taken_key IS 'Internal: the lock that says that a job which was handed over has been taken.';

-- hand_over: hands a job that this transaction has inserted to a worker that sleeps, and notifies it. At the commit only, since its
-- lease begins here. At most one job a transaction is tried, and eight at a time for each worker: all others go the usual way, by a look that
-- takes many. A commit that finds eight before it at each sleeper tells them that there are so many.
-- returns: whether nobody has to be told any more. False when there is nobody, or the job is none for that: not due, joined already, its ids too many, or an UPDATE of it fails,
--          or may fail after this
-- locks, in this order: hands (tried, shared: who gets it knows that the worker's session is gone), handing (tried), the job's row,
--        which nobody else can see yet
--
-- A PRICE_REFRESH needs no lock of its catalog here. Nobody else can have seen this job, so nobody else's addition counts on it;
-- those of this transaction are looked for.
CREATE OR REPLACE FUNCTION :"schema".hand_over(p_id bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at      constant timestamptz := clock_timestamp();
    sleeper record;
    token   constant text := left(overlay(gen_random_uuid()::text PLACING '8' FROM 15 FOR 1), 28);
BEGIN
    IF coalesce(current_setting('notifyworker.handed', true), '') <> '' THEN
        RETURN false;
    END IF;
    PERFORM set_config('notifyworker.handed', 'tried', true);
    -- A deferred trigger of the user's would see the reservation when nothing can be taken back any more: if it raised, the client's
    -- commit would fail for it.
    IF EXISTS (SELECT FROM pg_trigger t
                WHERE t.tgrelid = 'jobs'::regclass AND t.tgdeferrable AND NOT t.tgisinternal AND t.tgfoid <> 'announce_work'::regproc AND t.tgtype & 16 <> 0) THEN
        RETURN false;
    END IF;
    SELECT c.id, c.key, c.hands INTO sleeper
      FROM (SELECT w.id, (w.hands -> 'key')::integer AS key, w.hands FROM workers w
             WHERE w.hands IS NOT NULL AND w.wants_notify AND w.last_beat > at - interval '15 s' ORDER BY random()) c
     WHERE NOT pg_try_advisory_xact_lock_shared(1853292549, c.key) AND EXISTS (SELECT FROM generate_series(0, 7) i WHERE pg_try_advisory_xact_lock(1853292550, (c.key & ~7) + (pg_backend_pid() + i & 7)))
     LIMIT 1;
    IF NOT FOUND THEN
        -- Is it that each has eight commits before this one, whose notifications the server lets through one by one? Then telling of each job
        -- is what holds them all up, and the sleepers had better be busy.
        IF EXISTS (SELECT FROM workers w
                    WHERE w.hands IS NOT NULL AND w.wants_notify AND w.last_beat > at - interval '15 s'
                      AND NOT pg_try_advisory_xact_lock_shared(1853292549, (w.hands -> 'key')::integer)) THEN
            PERFORM pg_notify(channel(), '{"commits":"many"}');
            RETURN true;
        END IF;
        RETURN false;
    END IF;
    BEGIN
        UPDATE jobs j SET status = 'RUNNING', lock_token = (token || lpad(to_hex(sleeper.key), 8, '0'))::uuid, worker_id = sleeper.id,
               attempts = least(j.attempts, 2147483646) + 1, started_at = at, updated_at = at,
               lease_expires_at = at + coalesce((sleeper.hands -> 'leases' ->> j.type)::integer, (sleeper.hands -> 'lease')::integer) * interval '1 ms'
         WHERE j.id = p_id AND j.status = 'PENDING' AND j.run_after <= at
           AND CASE WHEN j.type = 'PRICE_REFRESH' THEN is_whole(j.tenant_id, j.catalog_id, j.config, j.product_count, j.successor, (sleeper.hands -> 'ids')::integer)
                    ELSE true END;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses it, say: that is no reason not to enqueue it
        RETURN false;
    END;
    PERFORM pg_notify(channel(), format('{"worker":"%s","job":%s}', sleeper.id, p_id));
    RETURN true;
END $$;
COMMENT ON FUNCTION :"schema".hand_over IS 'Internal: hands a job to a worker that sleeps, at the commit that enqueues it.';

-- is_whole: whether a PENDING PRICE_REFRESH can be reserved as it is: nothing has joined it, no id is in it twice, and they are not too
-- many.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".is_whole(p_tenant uuid, p_catalog text, p_config jsonb, p_count integer, p_successor boolean, p_max_ids integer)
    RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF p_successor OR p_count > p_max_ids OR EXISTS (SELECT FROM job_additions a WHERE a.tenant_id = p_tenant AND a.catalog_id = p_catalog) THEN
        RETURN false;
    END IF;
    RETURN p_count <= 1 OR p_count = (SELECT count(DISTINCT x.e) FROM jsonb_array_elements(p_config -> 'productIds') x(e));
END $$;
COMMENT ON FUNCTION :"schema".is_whole IS 'Internal: whether a PRICE_REFRESH can be reserved without a fold.';

-- take_back: jobs that are RUNNING for this worker though it has not taken them: it was not told of them, or could not take them. They
-- stay its own, under new tokens and leases, as if a look had reserved them.
-- $1 ids of jobs that the worker's process doesn't have  $2 the lock tokens that they had then: or a call that is carried out late would take
-- one from its own handler  $3 the worker  $4 lease in ms  $5 {"type": lease in ms} for types with another one
-- returns: the jobs as reserve does; those that somebody else has by now, or whose lease has ended, are not among them. One with lock_token NULL can't be had this
--          very moment, since somebody looks after it, or a session of the worker's is about to end: ask again
-- locks, for each job: taken (tried); its row (passing over a locked one)
CREATE OR REPLACE FUNCTION :"schema".take_back(
    p_ids bigint[], p_tokens uuid[], p_worker uuid, p_lease_ms integer, p_leases jsonb DEFAULT '{}')
    RETURNS TABLE (id bigint, tenant_id uuid, type text, operated_by uuid, config jsonb, trace_id text, catalog_id text,
                   product_count integer, lock_token uuid, attempts integer, max_attempts integer, created_at timestamptz,
                   run_after timestamptz, started_at timestamptz, lease_expires_at timestamptz,
                   next_due_ms double precision, next_lease_ms double precision, look_ms double precision)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at    constant timestamptz := clock_timestamp();
    job   bigint;
    token uuid;
    had   boolean;
BEGIN
    FOR job, token IN SELECT x.id, x.token FROM unnest(p_ids, p_tokens) x(id, token) ORDER BY x.id LOOP
        had := handed_key(token) IS NULL OR pg_try_advisory_xact_lock(taken_key(job));
        IF had THEN
            PERFORM FROM jobs j WHERE j.id = job AND j.lock_token = token AND j.worker_id = p_worker AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;
            had := FOUND;
        END IF;
        IF had THEN
            BEGIN
                RETURN QUERY
                UPDATE jobs j SET lock_token = gen_random_uuid(), started_at = at, updated_at = at,
                       lease_expires_at = at + coalesce((p_leases ->> j.type)::integer, p_lease_ms) * interval '1 ms'
                 WHERE j.id = job
                RETURNING j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token,
                          j.attempts, j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at,
                          NULL::double precision, NULL::double precision, 0::double precision;
                CONTINUE;
            EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses it, say: that must not keep the others
                NULL;
            END;
        END IF;
        RETURN QUERY
        SELECT j.id, NULL::uuid, '', NULL::uuid, NULL::jsonb, NULL, NULL, NULL::integer, NULL::uuid, 0, 0, NULL::timestamptz,
               NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::double precision, NULL::double precision, 0::double precision
          FROM jobs j WHERE j.id = job AND j.lock_token = token AND j.worker_id = p_worker AND j.lease_expires_at > at;
    END LOOP;
END $$;
COMMENT ON FUNCTION :"schema".take_back IS 'For workers: makes jobs that were handed to this one, and not taken, ordinary ones of its own.';

-- was_let_lie: whether a RUNNING job was handed to a worker that lives and has not taken it. It can't take it from here on.
-- locks: taken (tried). Lock first, look second: the worker's session is looked for when "taken" is ours. A session that ends gives its
--        locks back one by one, and may have had "taken" a moment ago: so whoever relies on it asks has_hands once more, a moment later.
CREATE OR REPLACE FUNCTION :"schema".was_let_lie(p_job bigint, p_token uuid) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    RETURN handed_key(p_token) IS NOT NULL AND pg_try_advisory_xact_lock(taken_key(p_job)) AND has_hands(handed_key(p_token));
END $$;
COMMENT ON FUNCTION :"schema".was_let_lie IS 'Internal: whether a job was handed to a worker that lives and has not taken it.';

-- has_hands: whether a session of this database holds the lock "hands" of this key.
CREATE OR REPLACE FUNCTION :"schema".has_hands(p_key integer) RETURNS boolean
    LANGUAGE sql VOLATILE
    RETURN EXISTS (SELECT FROM pg_locks l
                    WHERE l.locktype = 'advisory' AND l.classid = 1853292549 AND l.objid = p_key::oid AND l.objsubid = 2
                      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                      AND l.mode = 'ExclusiveLock' AND l.granted);
COMMENT ON FUNCTION :"schema".has_hands IS 'Internal: whether the session lives that takes what is handed over by this key.';

-- take_over: of these jobs, those that were handed to a worker that lives and has not taken them, at most p_limit. The worker that let
-- one lie is handed no more until it says again that it takes them.
-- $1 at most so many  $2 ids; NULL: any that were handed over $6 ms ago or earlier to a session that lives, of 1,000 whose leases end first
-- $3 the worker that takes them over  $4 lease in ms  $5 {"type": lease in ms} for types with another one
-- returns: the jobs as reserve does, under new tokens
-- locks, for each job: those of was_let_lie; its row (passing over a locked one); the row of the worker (passing over a locked one).
--        Lives from the primary key; without ids from jobs_lease_idx, of which it reads all leases that have not ended, also those of
--        jobs that have, while somebody pins vacuum
DROP FUNCTION IF EXISTS :"schema".take_over(integer, bigint[], uuid, integer, jsonb);
CREATE OR REPLACE FUNCTION :"schema".take_over(
    p_limit integer, p_ids bigint[], p_worker uuid, p_lease_ms integer, p_leases jsonb DEFAULT '{}', p_ago_ms bigint DEFAULT 40)
    RETURNS TABLE (id bigint, tenant_id uuid, type text, operated_by uuid, config jsonb, trace_id text, catalog_id text,
                   product_count integer, lock_token uuid, attempts integer, max_attempts integer, created_at timestamptz,
                   run_after timestamptz, started_at timestamptz, lease_expires_at timestamptz,
                   next_due_ms double precision, next_lease_ms double precision, look_ms double precision)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at   timestamptz := clock_timestamp();
    ids  bigint[] := p_ids;
    lain bigint[] := '{}';
    live oid[];
    r    record;
BEGIN
    IF ids IS NULL THEN
        live := ARRAY(SELECT l.objid FROM pg_locks l
                       WHERE l.locktype = 'advisory' AND l.classid = 1853292549 AND l.objsubid = 2 AND l.granted AND l.mode = 'ExclusiveLock');
        ids := ARRAY(SELECT j.id FROM jobs j
                      WHERE j.status = 'RUNNING' AND j.lease_expires_at > at AND j.started_at <= at - p_ago_ms * interval '1 ms'
                        AND handed_key(j.lock_token)::oid = ANY (live)
                      ORDER BY j.lease_expires_at LIMIT 1000);
    END IF;
    FOR r IN SELECT j.id, j.lock_token FROM jobs j
              WHERE j.id = ANY ((SELECT ids)::bigint[]) AND j.worker_id <> p_worker ORDER BY j.id LOOP
        EXIT WHEN cardinality(lain) >= p_limit;
        IF was_let_lie(r.id, r.lock_token) THEN
            PERFORM FROM jobs j WHERE j.id = r.id AND j.lock_token = r.lock_token FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                lain := lain || r.id;
            END IF;
        END IF;
    END LOOP;
    IF lain = '{}' THEN
        RETURN;
    END IF;
    PERFORM pg_sleep(0.002);
    at := clock_timestamp();
    FOR r IN SELECT j.id, j.lock_token, j.worker_id, handed_key(j.lock_token) AS key FROM jobs j
              WHERE j.id = ANY ((SELECT lain)::bigint[]) AND j.worker_id <> p_worker ORDER BY j.id LOOP
        CONTINUE WHEN r.key IS NULL OR NOT has_hands(r.key);
        RETURN QUERY
        UPDATE jobs j SET lock_token = gen_random_uuid(), worker_id = p_worker, started_at = at, updated_at = at,
               lease_expires_at = at + coalesce((p_leases ->> j.type)::integer, p_lease_ms) * interval '1 ms'
         WHERE j.id = r.id
        RETURNING j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token,
                  j.attempts, j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at,
                  NULL::double precision, NULL::double precision, 0::double precision;
        UPDATE workers w SET hands = NULL
         WHERE w.id = (SELECT x.id FROM workers x WHERE x.id = r.worker_id AND (x.hands -> 'key')::integer = r.key FOR UPDATE SKIP LOCKED);
    END LOOP;
END $$;
COMMENT ON FUNCTION :"schema".take_over IS 'For workers: takes over jobs that were handed to a worker which has not taken them.';
