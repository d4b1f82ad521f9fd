-- Enqueueing: the public API for clients in any language. One call, one round trip, inside the caller's transaction.

-- add_price_refresh: ids that are to be recomputed join the catalog's waiting job, or become it.
-- returns: the waiting job's id, and whether the ids joined a job that was waiting already
-- locks, in this order: catalog (shared; waits only for the short transactions of workers), creating (tried), beside (tried, and
--        let go at once); none in a REPEATABLE READ or SERIALIZABLE transaction
--
-- A PENDING job is visible: an addition is appended; the shared lock keeps every reservation of that job from being "quiet"
-- until we commit, so either that job or its successor is PENDING when the addition becomes visible. None is visible and
-- "creating" is ours, and none is visible then either: the job is inserted. The second look is younger than the lock: the job
-- of who had it before may be committed, and be under a cancel by a client whose transaction stays open; an INSERT would wait
-- for that one. None is visible and somebody else's first insert is still open, be it a plain one "beside": a marked
-- addition is appended, which needs no waiting job, under an id that is taken from jobs' sequence now, so that every caller
-- gets an id that it will find. A REPEATABLE READ or SERIALIZABLE snapshot may be older than the lock: there nothing is
-- looked at, nothing locked, and every addition is marked.
CREATE OR REPLACE FUNCTION :"schema".add_price_refresh(
    p_tenant uuid, p_catalog text, p_ids jsonb, p_full boolean, p_operated_by uuid, p_trace_id text, p_run_after timestamptz,
    p_from bigint, p_attempts integer, p_max_attempts integer, OUT job_id bigint, OUT joined boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    chunk  constant integer := 10000;
    stripe constant integer := catalog_stripe(p_tenant, p_catalog);
    n      constant integer := jsonb_array_length(p_ids);
    mark   boolean := current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted');
    first  boolean := false; -- "creating" is ours, and nobody was beside us
    vain   integer := 0;
BEGIN
    joined := false;
    IF NOT mark THEN
        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);
    END IF;
    WHILE NOT mark LOOP
        SELECT j.id INTO job_id FROM jobs j
         WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH';
        IF FOUND THEN
            joined := true;
            EXIT;
        ELSIF NOT first THEN
            first := pg_try_advisory_xact_lock(1853292546, stripe)
                     AND pg_try_advisory_lock(1853292552, stripe) AND pg_advisory_unlock(1853292552, stripe);
            mark := NOT first;
            CONTINUE; -- look again, or go on to append
        END IF;
        INSERT INTO jobs (tenant_id, type, operated_by, trace_id, config, attempts, max_attempts, run_after)
        VALUES (p_tenant, 'PRICE_REFRESH', p_operated_by, p_trace_id,
                jsonb_build_object('catalogId', p_catalog, 'productIds',
                    CASE WHEN n > chunk THEN jsonb_path_query_array(p_ids, '$[0 to $last]', jsonb_build_object('last', chunk - 1)) ELSE p_ids END)
                || CASE WHEN p_full THEN '{"full": true}'::jsonb ELSE '{}' END,
                p_attempts, p_max_attempts, greatest(p_run_after, now()))
        ON CONFLICT (tenant_id, catalog_id) WHERE status = 'PENDING' AND type = 'PRICE_REFRESH' DO NOTHING
        RETURNING id INTO job_id;
        EXIT WHEN FOUND; -- else a raw INSERT of somebody has just been committed: look again
        first := false; -- and ask again: another may be beside by now
        vain := vain + 1;
        IF vain = 10 THEN -- so often nobody can have come and gone
            RAISE EXCEPTION 'the refresh of catalog % can''t be enqueued: a trigger of yours on jobs suppresses the INSERT', p_catalog
                USING ERRCODE = 'triggered_action_exception', HINT = 'Let it raise an error, or pass over PRICE_REFRESH jobs.';
        END IF;
    END LOOP;
    IF job_id IS NOT NULL AND NOT joined THEN
        IF n > chunk THEN
            PERFORM check_product_ids(p_ids); -- the job's trigger has seen the first ones only
            INSERT INTO job_additions (tenant_id, catalog_id, product_ids, operated_by, trace_id, attempts, max_attempts, run_after)
            SELECT p_tenant, p_catalog, jsonb_agg(x.e ORDER BY x.o), p_operated_by, p_trace_id, p_attempts, p_max_attempts, p_run_after
              FROM jsonb_array_elements(p_ids) WITH ORDINALITY x(e, o)
             WHERE x.o > chunk GROUP BY (x.o - 1) / chunk ORDER BY (x.o - 1) / chunk;
        END IF;
        RETURN;
    END IF;
    PERFORM check_product_ids(p_ids);
    IF mark THEN
        IF NOT EXISTS (SELECT FROM tenants t WHERE t.id = p_tenant) THEN
            RAISE EXCEPTION 'tenant % does not exist', p_tenant
                USING ERRCODE = 'foreign_key_violation', HINT = 'Insert it into tenants first.';
        END IF;
        IF p_from IS NULL THEN
            job_id := nextval(pg_get_serial_sequence(format('%I.jobs', :'schema'), 'id'));
        END IF;
    END IF;
    INSERT INTO job_additions (tenant_id, catalog_id, product_ids, full_refresh, marked, from_job_id, job_id,
                               operated_by, trace_id, attempts, max_attempts, run_after)
    SELECT p_tenant, p_catalog, c.ids, p_full, mark, p_from, CASE WHEN mark AND c.nr = 0 THEN add_price_refresh.job_id END,
           p_operated_by, p_trace_id, p_attempts, p_max_attempts, p_run_after
      FROM (SELECT 0 AS nr, p_ids AS ids WHERE n <= chunk
            UNION ALL
            SELECT (x.o - 1) / chunk, jsonb_agg(x.e ORDER BY x.o)
              FROM jsonb_array_elements(p_ids) WITH ORDINALITY x(e, o)
             WHERE n > chunk GROUP BY 1) c
     ORDER BY c.nr;
END $$;
COMMENT ON FUNCTION :"schema".add_price_refresh IS 'Internal: what enqueue_price_refresh and a merging requeue have in common.';

-- check_request: what all enqueue calls refuse, and the time that a delay means.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".check_request(tenant_id uuid, trace_id text, delay interval, OUT run_after timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF tenant_id IS NULL THEN
        RAISE EXCEPTION 'the tenant id is NULL' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'Leave the argument out for the default tenant.';
    ELSIF octet_length(trace_id) > 512 THEN
        RAISE EXCEPTION 'the trace id has % bytes, at most 512 are allowed: %…', octet_length(trace_id), left(trace_id, 40)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter one, or its hash.';
    -- By the calendar: as intervals, 10 years are 3,600 days. What is far too long is told apart first, or the sum might be no time.
    ELSIF delay < interval '0' OR delay > interval '11 years' OR now() + delay > now() + interval '10 years' THEN
        RAISE EXCEPTION 'a delay of % is not between 0 and 10 years', delay
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write how long from now, such as ''10 minutes''; leave it out for at once.';
    END IF;
    -- No delay is no wish: a job that waits for its back-off is not moved by it, and a new one is due at once.
    run_after := CASE WHEN delay > interval '0' THEN now() + delay ELSE '-infinity' END;
END $$;
COMMENT ON FUNCTION :"schema".check_request IS 'Internal: raises 22023 for a request that can''t be, else returns when it is due.';

CREATE OR REPLACE FUNCTION :"schema".enqueue_price_refresh(
    catalog_id text, product_ids jsonb, tenant_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    operated_by uuid DEFAULT NULL, trace_id text DEFAULT NULL, delay interval DEFAULT '0',
    OUT job_id bigint, OUT joined boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    PERFORM check_catalog_id(catalog_id);
    IF product_ids IS NULL OR jsonb_typeof(product_ids) <> 'array' THEN
        PERFORM check_product_ids(product_ids);
    END IF;
    SELECT a.job_id, a.joined INTO job_id, joined
      FROM add_price_refresh(enqueue_price_refresh.tenant_id, enqueue_price_refresh.catalog_id, product_ids, false,
                             enqueue_price_refresh.operated_by, enqueue_price_refresh.trace_id,
                             check_request(enqueue_price_refresh.tenant_id, enqueue_price_refresh.trace_id, delay),
                             NULL, 0, 100) a;
END $$;
COMMENT ON FUNCTION :"schema".enqueue_price_refresh IS 'Asks for the recomputation of products of a catalog; the ids join the catalog''s waiting job if there is one. Returns that job''s id and whether they joined.';

CREATE OR REPLACE FUNCTION :"schema".enqueue_full_refresh(
    catalog_id text, tenant_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    operated_by uuid DEFAULT NULL, trace_id text DEFAULT NULL, delay interval DEFAULT '0',
    OUT job_id bigint, OUT joined boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    PERFORM check_catalog_id(catalog_id);
    SELECT a.job_id, a.joined INTO job_id, joined
      FROM add_price_refresh(enqueue_full_refresh.tenant_id, enqueue_full_refresh.catalog_id, '[]', true,
                             enqueue_full_refresh.operated_by, enqueue_full_refresh.trace_id,
                             check_request(enqueue_full_refresh.tenant_id, enqueue_full_refresh.trace_id, delay),
                             NULL, 0, 100) a;
END $$;
COMMENT ON FUNCTION :"schema".enqueue_full_refresh IS 'Asks for the recomputation of a whole catalog: its waiting job, if there is one, becomes a full refresh.';

-- enqueue_price_refreshes: several catalogs in one call, in sorted order; a catalog named twice is one request.
-- locks: as add_price_refresh, catalog by catalog in order of tenant and name
CREATE OR REPLACE FUNCTION :"schema".enqueue_price_refreshes(
    refreshes jsonb, tenant_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    operated_by uuid DEFAULT NULL, trace_id text DEFAULT NULL, delay interval DEFAULT '0')
    RETURNS TABLE (catalog_id text, job_id bigint, joined boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    due timestamptz := check_request(enqueue_price_refreshes.tenant_id, enqueue_price_refreshes.trace_id, delay);
    r   record;
BEGIN
    IF refreshes IS NULL OR jsonb_typeof(refreshes) <> 'array' THEN
        RAISE EXCEPTION 'refreshes is %, not a JSON array', coalesce(jsonb_typeof(refreshes), 'missing')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write [{"catalogId": "…", "productIds": […]}, …].';
    END IF;
    FOR r IN SELECT x.e, x.o FROM jsonb_array_elements(refreshes) WITH ORDINALITY x(e, o) LOOP
        IF jsonb_typeof(r.e) <> 'object' OR jsonb_typeof(r.e -> 'catalogId') IS DISTINCT FROM 'string' THEN
            RAISE EXCEPTION 'entry % of refreshes has no "catalogId" that is a string: %', r.o, left(r.e::text, 100)
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Write [{"catalogId": "…", "productIds": […]}, …].';
        END IF;
        IF r.e -> 'full' NOT IN ('false', 'null') THEN
            RAISE EXCEPTION 'entry % of refreshes asks for a whole catalog: %', r.o, left(r.e ->> 'catalogId', 100)
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Call enqueue_full_refresh for it, and leave "full" out.';
        END IF;
        PERFORM check_catalog_id(r.e ->> 'catalogId');
        PERFORM check_product_ids(r.e -> 'productIds');
    END LOOP;
    FOR r IN SELECT g.catalog, CASE WHEN cardinality(g.lists) = 1 THEN g.lists[1]
                                    ELSE (SELECT coalesce(jsonb_agg(p.id ORDER BY l.o, p.o), '[]')
                                            FROM unnest(g.lists) WITH ORDINALITY l(ids, o),
                                                 jsonb_array_elements(l.ids) WITH ORDINALITY p(id, o)) END AS ids
               FROM (SELECT x.e ->> 'catalogId' AS catalog, array_agg(x.e -> 'productIds' ORDER BY x.o) AS lists
                       FROM jsonb_array_elements(refreshes) WITH ORDINALITY x(e, o) GROUP BY 1) g
              ORDER BY g.catalog LOOP
        catalog_id := r.catalog;
        SELECT a.job_id, a.joined INTO job_id, joined
          FROM add_price_refresh(enqueue_price_refreshes.tenant_id, r.catalog, r.ids, false, enqueue_price_refreshes.operated_by,
                                 enqueue_price_refreshes.trace_id, due, NULL, 0, 100) a;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION :"schema".enqueue_price_refreshes IS 'enqueue_price_refresh for several catalogs: [{"catalogId": "…", "productIds": […]}, …]. Returns a row a catalog.';

-- enqueue_job: a job of any type. A PRICE_REFRESH goes the way of enqueue_price_refresh.
-- locks: nothing, or as add_price_refresh
CREATE OR REPLACE FUNCTION :"schema".enqueue_job(
    type text, config jsonb DEFAULT '{}', tenant_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    operated_by uuid DEFAULT NULL, trace_id text DEFAULT NULL, delay interval DEFAULT '0', max_attempts integer DEFAULT NULL,
    OUT job_id bigint, OUT joined boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    due timestamptz := check_request(enqueue_job.tenant_id, enqueue_job.trace_id, delay);
BEGIN
    IF type IS NULL OR type = '' OR octet_length(type) > 200 THEN
        RAISE EXCEPTION 'the job type is %', CASE WHEN type IS NULL THEN 'missing' WHEN type = '' THEN 'empty' ELSE 'longer than 200 bytes' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name the type that a worker has a handler for, such as ''csv_import''.';
    ELSIF config IS NULL OR jsonb_typeof(config) <> 'object' THEN
        RAISE EXCEPTION 'config is %, not a JSON object', coalesce(jsonb_typeof(config), 'missing')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write an object, such as {"file": "a.csv"}; {} is allowed.';
    ELSIF max_attempts < 1 THEN
        RAISE EXCEPTION 'max_attempts is %, at least 1 is needed', max_attempts
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for the default.';
    END IF;
    IF type = 'PRICE_REFRESH' THEN
        IF jsonb_typeof(config -> 'catalogId') <> 'string' THEN
            RAISE EXCEPTION 'config.catalogId is a JSON %, not a string', jsonb_typeof(config -> 'catalogId')
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Write {"catalogId": "…", "productIds": […]}.';
        END IF;
        PERFORM check_catalog_id(config ->> 'catalogId');
        PERFORM check_product_ids(config -> 'productIds');
        PERFORM check_full(config);
        IF config - '{catalogId,productIds,full}'::text[] <> '{}' THEN
            RAISE EXCEPTION 'a PRICE_REFRESH can''t keep config.%', left((SELECT min(k) FROM jsonb_object_keys(config - '{catalogId,productIds,full}'::text[]) k), 100)
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Its config is catalogId, productIds and full: its ids may join a waiting job, which has no place for more. Say who asks by operated_by and trace_id.';
        END IF;
        SELECT a.job_id, a.joined INTO job_id, joined
          FROM add_price_refresh(enqueue_job.tenant_id, config ->> 'catalogId', config -> 'productIds',
                                 coalesce(config -> 'full' = 'true', false), enqueue_job.operated_by, enqueue_job.trace_id, due,
                                 NULL, 0, coalesce(max_attempts, 100)) a;
        RETURN;
    END IF;
    joined := false;
    INSERT INTO jobs (tenant_id, type, operated_by, trace_id, config, max_attempts, run_after)
    VALUES (enqueue_job.tenant_id, enqueue_job.type, enqueue_job.operated_by, enqueue_job.trace_id, enqueue_job.config,
            coalesce(enqueue_job.max_attempts, 20), greatest(due, now()))
    RETURNING id INTO job_id;
END $$;
COMMENT ON FUNCTION :"schema".enqueue_job IS 'Enqueues a job of any type with a JSON object as its input. Returns its id; joined is true only for a PRICE_REFRESH whose ids joined a waiting job.';
