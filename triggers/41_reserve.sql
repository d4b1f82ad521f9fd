-- reserve: PENDING → RUNNING for up to p_limit due jobs, each with a lock token of its own.
-- $1 at most so many jobs  $2 the worker  $3 lease in ms  $4 {"type": lease in ms} for types with another one
-- $5 at most so many product ids a job  $6 start the search at this due time: what is due since before that is not seen, nor
--    are the index entries of jobs that are long gone, which nothing removes while somebody's old snapshot pins vacuum
-- $7 careful: a job that can't be reserved (a
--    trigger of the user's raises, say) is passed over instead of failing the call; slower
-- $8 brief: what can be had by one statement is returned without a word of what comes next. The caller has to look again
--    soon: marked additions were not looked for, nor jobs that somebody else has locked or has just changed
-- returns: the jobs as reserved, in no order; when there were fewer than asked for, one more row without an id
--          that holds what next_due returns (possibly "now": a job that somebody else has locked, or a successor just left).
--          No such row, brief. Each row says in look_ms how long it took to find the jobs, or to find that there is none; brief,
--          with what it took to take them up to that row.
-- locks, in this order: the jobs' rows by (run_after, id), passing over locked ones; for each PRICE_REFRESH then its
--        catalog (tried, exclusive) and its additions (see fold), or marked additions (see reserve_marked.sql). Waits for nobody.
--
-- Plans: each statement finds its rows by an index, also where the statistics are of a time when the table was empty. The
-- arrays of ids stand in sub-selects, so that the planner knows as much of one id as of many: one plan serves all, and is made
-- once a session.
--
-- The catalog's lock got: no addition is under way, all of them are folded, done. Not got: what is committed is folded, and
-- a successor is left, which additions under way will find when they commit.
DO $$
DECLARE
    old regprocedure;
BEGIN
    -- A function's arguments can't be changed in its place. What was granted on it by name has to be granted again.
    FOR old IN SELECT p.oid::regprocedure FROM pg_proc p
                WHERE p.pronamespace = quote_ident(:'schema')::regnamespace AND p.proname = 'reserve' AND NOT 'p_brief' = ANY (p.proargnames) LOOP
        EXECUTE format('DROP FUNCTION %s', old);
    END LOOP;
    DROP FUNCTION IF EXISTS :"schema".next_due();
    DROP FUNCTION IF EXISTS :"schema".stands_alone(uuid, text, jsonb, integer);
END $$;
CREATE OR REPLACE FUNCTION :"schema".reserve(
    p_limit integer, p_worker uuid, p_lease_ms integer, p_leases jsonb DEFAULT '{}', p_max_ids integer DEFAULT 50000,
    p_from timestamptz DEFAULT '-infinity', p_careful boolean DEFAULT false, p_brief boolean DEFAULT false)
    RETURNS TABLE (id bigint, tenant_id uuid, type text, operated_by uuid, config jsonb, trace_id text, catalog_id text,
                   product_count integer, lock_token uuid, attempts integer, max_attempts integer, created_at timestamptz,
                   run_after timestamptz, started_at timestamptz, lease_expires_at timestamptz,
                   next_due_ms double precision, next_lease_ms double precision, look_ms double precision)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at     constant timestamptz := clock_timestamp();
    due    bigint[];
    taken  integer := 0;
    n      integer;
    folded bigint[] := '{}';
    tried  bigint[];
    enough boolean;
    job    bigint;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'reserve needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'active_sql_transaction', HINT = 'Set default_transaction_isolation of the worker''s role to ''read committed''.';
    END IF;
    IF p_brief THEN
        -- By place, since the rows are locked: the shortest way. A row that has got another place since the statement began is
        -- not found there, and left to the next look.
        RETURN QUERY
        UPDATE jobs j SET status = 'RUNNING', lock_token = gen_random_uuid(), worker_id = p_worker,
               attempts = least(j.attempts, 2147483646) + 1, started_at = at, updated_at = at,
               lease_expires_at = at + coalesce((p_leases ->> j.type)::integer, p_lease_ms) * interval '1 ms'
         WHERE j.ctid = ANY (ARRAY(SELECT d.ctid FROM jobs d
                                    WHERE d.status = 'PENDING' AND d.run_after >= p_from AND d.run_after <= at
                                    ORDER BY d.run_after, d.id LIMIT p_limit FOR UPDATE SKIP LOCKED))
           AND CASE WHEN j.type = 'PRICE_REFRESH' THEN stands_alone(j.tenant_id, j.catalog_id, j.config, j.product_count, j.successor, p_max_ids)
                    ELSE true END
        RETURNING j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token,
                  j.attempts, j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at,
                  NULL::double precision, NULL::double precision, (extract(epoch FROM clock_timestamp() - at) * 1000)::double precision;
        GET DIAGNOSTICS taken = ROW_COUNT;
        IF taken = p_limit OR taken > 0 AND coalesce(current_setting('notifyworker.joined', true), '') = '' THEN
            RETURN;
        END IF;
    END IF;
    due := ARRAY(SELECT j.id FROM jobs j
                  WHERE j.status = 'PENDING' AND j.run_after >= p_from AND j.run_after <= at
                  ORDER BY j.run_after, j.id LIMIT p_limit - taken FOR UPDATE SKIP LOCKED);
    look_ms := extract(epoch FROM clock_timestamp() - at) * 1000;
    enough := due <> '{}' AND cardinality(due) = p_limit - taken;
    -- Jobs enough: a marked addition that has waited for longer than the last of them comes in its place. Only looks that find less
    -- come to the others, and under load none may for long.
    IF enough AND EXISTS (SELECT FROM job_additions a WHERE a.marked) THEN
        PERFORM settle_marked();
        IF marked_waits_longer(due[cardinality(due)]) THEN
            folded := reserve_all_marked(1, p_worker, p_lease_ms, p_leases, p_max_ids, p_careful);
            due := trim_array(due, cardinality(folded));
        END IF;
    END IF;
    IF p_careful THEN
        -- Behind those that can't be had there may be others, so it goes on until it has enough.
        tried := due;
        LOOP
            folded := folded || reserve_carefully(due, p_worker, p_lease_ms, p_leases, p_max_ids);
            EXIT WHEN due = '{}' OR taken + cardinality(folded) >= p_limit OR cardinality(tried) >= 1000;
            due := ARRAY(SELECT j.id FROM jobs j
                          WHERE j.status = 'PENDING' AND j.run_after >= p_from AND j.run_after <= at AND j.id <> ALL (tried)
                          ORDER BY j.run_after, j.id LIMIT p_limit - taken - cardinality(folded) FOR UPDATE SKIP LOCKED);
            tried := tried || due;
        END LOOP;
    ELSIF due <> '{}' THEN
        RETURN QUERY
        UPDATE jobs j SET status = 'RUNNING', lock_token = gen_random_uuid(), worker_id = p_worker,
               attempts = least(j.attempts, 2147483646) + 1, started_at = at, updated_at = at,
               lease_expires_at = at + coalesce((p_leases ->> j.type)::integer, p_lease_ms) * interval '1 ms'
         WHERE j.id = ANY ((SELECT due)::bigint[])
           AND CASE WHEN j.type = 'PRICE_REFRESH' THEN stands_alone(j.tenant_id, j.catalog_id, j.config, j.product_count, j.successor, p_max_ids)
                    ELSE true END
        RETURNING j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token,
                  j.attempts, j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at,
                  NULL::double precision, NULL::double precision, look_ms;
        GET DIAGNOSTICS n = ROW_COUNT;
        taken := taken + n;
        IF n < cardinality(due) THEN
            IF enough AND EXISTS (SELECT FROM jobs j WHERE j.id = ANY ((SELECT due)::bigint[]) AND j.status = 'PENDING' AND j.type <> 'PRICE_REFRESH') THEN
                RAISE EXCEPTION 'a job can''t be reserved: a trigger of yours on jobs suppresses the UPDATE'
                    USING ERRCODE = 'triggered_action_exception', HINT = 'Let it raise an error, or pass over the UPDATE of status.';
            END IF;
            FOR job IN SELECT j.id FROM jobs j
                        WHERE j.id = ANY ((SELECT due)::bigint[]) AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH' ORDER BY j.run_after, j.id LOOP
                IF reserve_refresh(job, p_worker, p_lease_ms, p_leases, p_max_ids) THEN
                    folded := folded || job;
                END IF;
            END LOOP;
        END IF;
    END IF;
    -- Marked additions whose catalog has no waiting job become a RUNNING job at once. Almost always there are none.
    IF taken + cardinality(folded) < p_limit AND EXISTS (SELECT FROM job_additions a WHERE a.marked) THEN
        PERFORM settle_marked();
        folded := folded || reserve_all_marked(p_limit - taken - cardinality(folded), p_worker, p_lease_ms, p_leases,
                                               p_max_ids, p_careful);
    END IF;
    IF folded <> '{}' THEN
        RETURN QUERY
        SELECT j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token,
               j.attempts, j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at,
               NULL::double precision, NULL::double precision, look_ms
          FROM jobs j WHERE j.id = ANY ((SELECT folded)::bigint[]) AND j.lock_token IS NOT NULL; -- RUNNING; by its status it would be by the index of leases
    END IF;
    IF taken + cardinality(folded) < p_limit THEN
        SELECT n.due_ms, n.lease_ms INTO next_due_ms, next_lease_ms FROM next_due(p_from) n;
        RETURN NEXT;
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".reserve IS 'For workers: reserves up to p_limit due jobs.';

-- stands_alone: whether a PENDING PRICE_REFRESH whose row is locked can be reserved as it is: nothing has joined it, nothing
-- is on its way to join it, no id is in it twice, and they are not too many. Else reserve_refresh has to, and notifyworker.joined
-- says so to a brief look for the rest of the transaction.
-- locks: catalog (tried, exclusive). Look only then: what a statement sees that began before may be less than there is.
CREATE OR REPLACE FUNCTION :"schema".stands_alone(p_tenant uuid, p_catalog text, p_config jsonb, p_count integer, p_successor boolean, p_max_ids integer)
    RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF pg_try_advisory_xact_lock(1853292545, catalog_stripe(p_tenant, p_catalog)) THEN
        IF is_whole(p_tenant, p_catalog, p_config, p_count, p_successor, p_max_ids) THEN
            RETURN true;
        END IF;
    END IF;
    PERFORM set_config('notifyworker.joined', 'true', true);
    RETURN false;
END $$;
COMMENT ON FUNCTION :"schema".stands_alone IS 'Internal: whether a PRICE_REFRESH can be reserved without a fold.';

-- put_off: a job that can't be reserved lets others come first for a minute.
-- locks: nothing; its row is locked already
CREATE OR REPLACE FUNCTION :"schema".put_off(p_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    UPDATE jobs j SET run_after = clock_timestamp() + interval '1 minute', updated_at = clock_timestamp() WHERE j.id = p_id;
EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses that, too
    RAISE WARNING 'nor put off: %', SQLERRM;
END $$;
COMMENT ON FUNCTION :"schema".put_off IS 'Internal: has a job that can''t be reserved wait for a minute.';

-- reserve_carefully: reserves each of these locked PENDING jobs by itself. One that can't be reserved stays as it is.
-- returns: those that were reserved
-- locks: as reserve_refresh
CREATE OR REPLACE FUNCTION :"schema".reserve_carefully(p_due bigint[], p_worker uuid, p_lease_ms integer, p_leases jsonb, p_max_ids integer)
    RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    at    constant timestamptz := clock_timestamp();
    taken bigint[] := '{}';
    r     record;
BEGIN
    FOR r IN SELECT j.id, j.type = 'PRICE_REFRESH' AS refresh FROM jobs j WHERE j.id = ANY (p_due) ORDER BY j.run_after, j.id LOOP
        BEGIN
            IF NOT r.refresh THEN
                UPDATE jobs j SET status = 'RUNNING', lock_token = gen_random_uuid(), worker_id = p_worker,
                       attempts = least(j.attempts, 2147483646) + 1, started_at = at, updated_at = at,
                       lease_expires_at = at + coalesce((p_leases ->> j.type)::integer, p_lease_ms) * interval '1 ms'
                 WHERE j.id = r.id;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'a trigger of yours on jobs suppresses the UPDATE' USING ERRCODE = 'triggered_action_exception';
                END IF;
                taken := taken || r.id;
            ELSIF reserve_what_fits(r.id, p_worker, p_lease_ms, p_leases, p_max_ids) THEN
                taken := taken || r.id;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'job % can''t be reserved: %', r.id, SQLERRM;
            IF SQLSTATE NOT LIKE '40%' AND SQLSTATE <> '55P03' THEN -- else it was somebody's lock, and is soon over
                PERFORM put_off(r.id);
            END IF;
        END;
    END LOOP;
    RETURN taken;
END $$;
COMMENT ON FUNCTION :"schema".reserve_carefully IS 'Internal: reserves jobs one by one, passing over those that can''t be.';

-- next_due: how long until there is something to reserve, and until a lease ends; in ms, negative or 0 for "now", NULL for
-- nothing known. What is due, or has its lease end, before p_from is not seen. From less than a second ago on, a lease is told of
-- that ends within the next 250 ms: the entries before a later one are those of all jobs that ran since it began, dead ones where
-- vacuum is pinned. Who starts its looks there asks for the others beside them, by look_back.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".next_due(p_from timestamptz, OUT due_ms double precision, OUT lease_ms double precision)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    due   timestamptz;
    lease timestamptz;
    until constant timestamptz := CASE WHEN p_from > clock_timestamp() - interval '1 s' THEN clock_timestamp() + interval '250 ms' ELSE 'infinity' END;
BEGIN
    -- Statement by statement, each a probe of one partial index: this is on the way of every job that wakes a sleeper.
    SELECT j.run_after INTO due FROM jobs j WHERE j.status = 'PENDING' AND j.run_after >= p_from ORDER BY j.run_after LIMIT 1;
    IF EXISTS (SELECT FROM job_additions a WHERE a.marked) THEN
        SELECT least(due, CASE WHEN min(m.since) IS NULL AND count(*) = 1000 THEN clock_timestamp() ELSE min(m.since) END) INTO due
          FROM (SELECT CASE WHEN NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id
                                                                 AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
                             AND EXISTS (SELECT FROM tenants t WHERE t.id = a.tenant_id)
                            THEN greatest(a.run_after, clock_timestamp() - interval '1 hour') END AS since
                  FROM job_additions a WHERE a.marked ORDER BY a.run_after, a.id LIMIT 1000) m;
    END IF;
    SELECT j.lease_expires_at INTO lease FROM jobs j
     WHERE j.status = 'RUNNING' AND j.lease_expires_at >= p_from AND j.lease_expires_at < until ORDER BY j.lease_expires_at LIMIT 1;
    lease := least(lease, (SELECT r.lease_expires_at FROM refreshes r
                            WHERE r.status = 'ACTIVE' AND r.lease_expires_at >= p_from AND r.lease_expires_at < until
                            ORDER BY r.lease_expires_at LIMIT 1));
    due_ms := extract(epoch FROM due - clock_timestamp()) * 1000;
    lease_ms := extract(epoch FROM lease - clock_timestamp()) * 1000;
END $$;
COMMENT ON FUNCTION :"schema".next_due IS 'For workers: milliseconds until the next job is due and until the next lease ends; NULL when there is none.';
