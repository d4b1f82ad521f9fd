-- Admission: the job's end and the refresh's beginning are one commit.

-- admit_refresh: a RUNNING PRICE_REFRESH becomes COMPLETED and its products an ACTIVE refresh, or nothing is written.
-- $1 job  $2 its token  $3 the worker  $4 the refresh's lease in ms  $5 article function (see articles_of), NULL for article_of
-- returns: outcome   accepted            the refresh, and the token by which to run it
--                    nothing             COMPLETED without a refresh: no ids, not full
--                    product_in_flight   refused: refresh_id is active and has one of the articles (or this one is full)
--                    full_in_flight      refused: refresh_id is active and has the whole catalog
--                    busy                somebody holds the lock of the job's row: nothing done, try again
--                    lost                not RUNNING under this token: nothing done
-- locks, in this order: the job's row (tried); admission of the catalog (waited for by who has nothing in the way: only
--        transactions of this file take it, each one round trip long); the row of the refresh that is in the way (waited for a moment). Nobody who holds a refresh's row waits for a
--        job's row or for admission, so no circle can be.
-- Two pods that submit at once: the second waits for the admission lock, and its look at what is in flight is a statement
-- of its own, with a snapshot younger than the lock. An article function's time is not spent under the lock.
-- search_path is the session's, for the user's article function: what is ours is written with its schema.
CREATE OR REPLACE FUNCTION :"schema".admit_refresh(
    p_job_id bigint, p_token uuid, p_worker uuid, p_lease_ms integer, p_article_function text DEFAULT NULL,
    OUT outcome text, OUT refresh_id bigint, OUT refresh_token uuid)
    LANGUAGE plpgsql AS $$
DECLARE
    j         record;
    ids       jsonb;
    wants_all boolean;
    articles  text[] := '{}';
    stripe    integer;
    locked    boolean;
    at        timestamptz;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'admit_refresh needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'active_sql_transaction';
    END IF;
    SELECT k.tenant_id, k.catalog_id, k.type, k.config, k.trace_id, k.operated_by INTO j
      FROM :"schema".jobs k
     WHERE k.id = p_job_id AND k.status = 'RUNNING' AND k.lock_token = p_token
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM :"schema".jobs k WHERE k.id = p_job_id AND k.status = 'RUNNING' AND k.lock_token = p_token;
        outcome := CASE WHEN FOUND THEN 'busy' ELSE 'lost' END;
        RETURN;
    ELSIF j.type <> 'PRICE_REFRESH' THEN
        RAISE EXCEPTION 'job % is a %, not a PRICE_REFRESH', p_job_id, j.type USING ERRCODE = 'invalid_parameter_value';
    END IF;
    ids := j.config -> 'productIds';
    stripe := hashtext(j.tenant_id || '/' || j.catalog_id);
    wants_all := coalesce(j.config -> 'full' = 'true', false);
    IF wants_all OR jsonb_array_length(ids) > 0 THEN
        IF NOT wants_all THEN
            articles := :"schema".articles_of(ids, p_article_function);
        END IF;
        -- A refusal needs no lock: what is in the way is in the way. While others are admitted to the catalog, look first.
        locked := pg_try_advisory_xact_lock(1853292548, stripe);
        <<admission>>
        LOOP
            SELECT f.outcome, f.refresh_id INTO outcome, refresh_id
              FROM :"schema".in_flight(j.tenant_id, j.catalog_id, wants_all, articles) f;
            IF outcome IS NULL THEN
                EXIT admission WHEN locked;
                PERFORM pg_advisory_xact_lock(1853292548, stripe);
                locked := true;
                CONTINUE;
            END IF;
            -- Counted where the release reads it: it then wakes who was refused, also one whose requeue is still under way.
            -- That row may be locked by the release itself, a moment: then what was in the way is gone, look again. Or by a
            -- person: then the back-off has to do.
            BEGIN
                PERFORM set_config('lock_timeout', '250ms', true);
                UPDATE :"schema".refreshes r SET refused = r.refused + 1 WHERE r.id = refresh_id AND r.status = 'ACTIVE';
                EXIT admission WHEN FOUND;
                -- An UPDATE that waited for a row, and then finds that it is not to be updated, has locked it all the same.
                -- Undone, or who holds the admission lock and wants this row would wait for us, and we for them.
                RAISE EXCEPTION 'refresh % is gone', refresh_id USING ERRCODE = 'NW410';
            EXCEPTION
                WHEN lock_not_available THEN EXIT admission;
                WHEN SQLSTATE 'NW410' THEN NULL;
            END;
        END LOOP;
        IF outcome IS NOT NULL THEN
            RETURN;
        END IF;
        at := clock_timestamp();
        INSERT INTO :"schema".refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, article_ids, lock_token,
                                         lease_expires_at, worker_id, trace_id, operated_by, created_at, updated_at)
        VALUES (p_job_id, j.tenant_id, j.catalog_id, CASE WHEN wants_all THEN 'FULL' ELSE 'PARTIAL' END, ids, NOT wants_all,
                articles, gen_random_uuid(), at + p_lease_ms * interval '1 ms', p_worker, j.trace_id, j.operated_by, at, at)
        RETURNING id, lock_token INTO refresh_id, refresh_token;
        outcome := 'accepted';
    ELSE
        outcome := 'nothing';
    END IF;
    at := clock_timestamp();
    UPDATE :"schema".jobs k
       SET status = 'COMPLETED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, error = NULL,
           result = k.result - 'refusedBy' || jsonb_build_object('products', k.product_count)
                    || CASE WHEN refresh_id IS NULL THEN '{}' ELSE jsonb_build_object('refreshId', refresh_id) END,
           finished_at = at, updated_at = at, duration_ms = greatest(0, extract(epoch FROM at - k.started_at) * 1000)
     WHERE k.id = p_job_id;
END $$;
COMMENT ON FUNCTION :"schema".admit_refresh IS 'For workers: accepts a PRICE_REFRESH (the job is COMPLETED, its refresh ACTIVE, in one commit) or refuses it.';
