-- was_given: whether jobs' sequence has given this id to somebody.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".was_given(p_id bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    RETURN p_id BETWEEN 1 AND (SELECT s.last_value FROM pg_sequences s WHERE s.schemaname = :'schema' AND s.sequencename = 'jobs_id_seq');
END $$;
COMMENT ON FUNCTION :"schema".was_given IS 'Internal: whether jobs'' sequence has given this id to somebody.';

-- fold: takes the catalog's additions into the job that is being reserved (or cancelled).
-- $1 tenant  $2 catalog  $3 the job  $4 the ids it has  $5 at most so many ids
-- returns: all ids in order of arrival, each once by its first place, with their JSON types (1 and "1" differ), never NULL;
--          how many additions were taken; whether one asked for the whole catalog; whether ids are left for a successor;
--          what a job without them takes from its additions: who asked, trace, and, if all came from requeues, attempts
-- locks: the additions, in id order, passing over locked ones; then, in id order, the rows of jobs that were merged into a
--        waiting job and learn here which one it was in the end. A row that somebody has locked is passed over, too: what
--        it has to learn is written down for the next sweep, as an addition of no catalog.
CREATE OR REPLACE FUNCTION :"schema".fold(
    p_tenant uuid, p_catalog text, p_job bigint, p_own jsonb, p_max_ids integer,
    OUT ids jsonb, OUT taken integer, OUT full_refresh boolean, OUT more boolean,
    OUT operated_by uuid, OUT trace_id text, OUT attempts integer)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET jit = off AS $$
DECLARE
    chunk constant integer := 10000;
    own   constant integer := jsonb_array_length(p_own);
    mine  tid[];
    sizes integer[];
    each  jsonb[];
    went  bigint;
    total bigint;
    froms bigint[];
    free  bigint[];
    most  integer;
BEGIN
    -- The first additions that fit; one that only fits in part is taken whole, and its rest put back below. The rows come by id,
    -- so what is gathered of them here is in order of arrival. A plain one is one short id, of nobody's job.
    SELECT array_agg(l.place), array_agg(l.n), own + coalesce(sum(l.n), 0), array_agg(l.product_ids -> 0) FILTER (WHERE l.plain),
           (array_agg(l.operated_by) FILTER (WHERE l.operated_by IS NOT NULL))[1],
           (array_agg(l.trace_id) FILTER (WHERE l.trace_id IS NOT NULL))[1]
      INTO mine, sizes, total, each, operated_by, trace_id
      FROM (SELECT a.ctid AS place, jsonb_array_length(a.product_ids) AS n, a.product_ids, a.operated_by, a.trace_id,
                   jsonb_array_length(a.product_ids) = 1 AND pg_column_size(a.product_ids) <= 1000 AND a.attempts = 0
                   AND NOT a.full_refresh AND a.from_job_id IS NULL AND a.job_id IS NULL AS plain
              FROM job_additions a
             WHERE a.tenant_id = p_tenant AND a.catalog_id = p_catalog
             ORDER BY a.id LIMIT greatest(p_max_ids - own, 0)::bigint + 1 FOR UPDATE SKIP LOCKED) l;
    more := total > p_max_ids;
    IF more THEN
        total := own;
        FOR i IN 1 .. coalesce(cardinality(mine), 0) LOOP
            IF total >= p_max_ids THEN
                mine := mine[1 : i - 1];
                EXIT;
            END IF;
            total := total + sizes[i];
        END LOOP;
    END IF;
    taken := coalesce(cardinality(mine), 0);
    IF taken = 0 AND own <= p_max_ids THEN
        SELECT CASE WHEN count(*) = own THEN p_own ELSE coalesce(jsonb_agg(u.e ORDER BY u.o), '[]') END INTO ids
          FROM (SELECT x.e, min(x.o) AS o FROM jsonb_array_elements(p_own) WITH ORDINALITY x(e, o) GROUP BY x.e) u;
        full_refresh := false;
        operated_by := NULL; -- what was read of additions that are not taken
        trace_id := NULL;
        RETURN;
    END IF;
    -- By place, since the rows are ours: an index condition on 40,000 ids becomes a filter when the planner expects one. In a
    -- sub-select, or it would look at each of 40,000 places to learn how many there are.
    IF cardinality(each) = taken AND NOT more THEN
        -- All are plain, so nothing has to be read of the rows again. Of 40,000 it takes two thirds of the time.
        DELETE FROM job_additions a WHERE a.ctid = ANY ((SELECT mine)::tid[]);
        GET DIAGNOSTICS went = ROW_COUNT;
        IF went < taken THEN -- a trigger of the user's keeps some: their ids wait on
            each := ARRAY(SELECT x.e FROM unnest(mine, each) WITH ORDINALITY x(place, e, o)
                           WHERE NOT EXISTS (SELECT FROM job_additions a WHERE a.ctid = x.place) ORDER BY x.o);
        END IF;
        ids := to_jsonb(ARRAY(SELECT x.e FROM unnest(ARRAY(SELECT jsonb_array_elements(p_own)) || each) WITH ORDINALITY x(e, o)
                               GROUP BY x.e ORDER BY min(x.o)));
        full_refresh := false;
        attempts := 0;
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM job_additions a WHERE a.ctid = ANY ((SELECT mine)::tid[])
        RETURNING a.id, a.product_ids, a.full_refresh, a.marked, a.from_job_id, a.job_id, a.operated_by, a.trace_id, a.attempts, a.max_attempts
    ), asked AS (
        -- place: the job's own ids first, then addition by addition (each has at most 10,000 ids, below 2^14).
        SELECT x.e, x.o - 4611686018427387904 AS place FROM jsonb_array_elements(p_own) WITH ORDINALITY x(e, o)
        UNION ALL
        SELECT g.product_ids -> 0, g.id * 16384 FROM gone g WHERE jsonb_array_length(g.product_ids) = 1
        UNION ALL
        SELECT x.e, g.id * 16384 + x.o FROM gone g, jsonb_array_elements(g.product_ids) WITH ORDINALITY x(e, o)
         WHERE jsonb_array_length(g.product_ids) > 1
    ), once AS (
        SELECT a.e, min(a.place) AS place FROM asked a GROUP BY a.e
    ), merged AS (
        -- The id that a caller was told: a job that ends here, merged, unless it is the one that is being made of it. What a client has
        -- written by hand is none that anybody was told, and may not stop the fold: a job's that exists, or is still to come, or of
        -- ids that no job could have.
        INSERT INTO jobs (id, tenant_id, type, operated_by, trace_id, status, config, result, finished_at)
        OVERRIDING SYSTEM VALUE
        SELECT g.job_id, p_tenant, 'PRICE_REFRESH', g.operated_by, g.trace_id, 'COMPLETED',
               jsonb_build_object('catalogId', p_catalog, 'productIds', g.product_ids),
               jsonb_build_object('mergedIntoJobId', p_job), now()
          FROM gone g
         WHERE g.job_id <> p_job AND was_given(g.job_id)
           AND NOT jsonb_path_exists(g.product_ids, 'strict $[*] ? (@.type() != "string" && @.type() != "number")')
        ON CONFLICT (id) DO NOTHING
    )
    SELECT to_jsonb(ARRAY(SELECT o.e FROM once o ORDER BY o.place)), t.*
      FROM (SELECT coalesce(bool_or(g.full_refresh), false),
                   array_agg(g.from_job_id ORDER BY g.from_job_id) FILTER (WHERE g.from_job_id IS NOT NULL),
                   (array_agg(g.operated_by ORDER BY g.id) FILTER (WHERE g.operated_by IS NOT NULL))[1],
                   (array_agg(g.trace_id ORDER BY g.id) FILTER (WHERE g.trace_id IS NOT NULL))[1],
                   CASE WHEN bool_and(g.from_job_id IS NOT NULL OR g.attempts > 0) THEN max(g.attempts) ELSE 0 END, max(g.max_attempts)
              FROM gone g) t
      INTO ids, full_refresh, froms, operated_by, trace_id, attempts, most;
    IF jsonb_array_length(ids) > p_max_ids THEN
        more := true;
        -- Before all others, and what was put back before: below zero, and by the sequence, since another fold of the catalog, of what is
        -- marked or of a newer job, may put something back at the same time.
        -- They stay whose they were. With attempts but of nobody's job: so the job itself has them, and learns nothing.
        INSERT INTO job_additions (id, tenant_id, catalog_id, product_ids, operated_by, trace_id, attempts, max_attempts)
        OVERRIDING SYSTEM VALUE
        SELECT -nextval(pg_get_serial_sequence(format('%I.job_additions', :'schema'), 'id')), p_tenant, p_catalog, c.e,
               coalesce(fold.operated_by, j.operated_by), coalesce(fold.trace_id, j.trace_id), greatest(fold.attempts, j.attempts),
               coalesce(most, j.max_attempts, 100)
          FROM (SELECT (x.o - 1) / chunk AS nr, jsonb_agg(x.e ORDER BY x.o) AS e
                  FROM jsonb_array_elements(ids) WITH ORDINALITY x(e, o) WHERE x.o > p_max_ids GROUP BY 1 ORDER BY 1 DESC OFFSET 0) c
          LEFT JOIN jobs j ON j.id = p_job AND fold.taken = 0; -- then they are the job's own
        ids := jsonb_path_query_array(ids, '$[0 to $last]', jsonb_build_object('last', p_max_ids - 1));
    END IF;
    IF froms IS NOT NULL THEN
        SELECT array_agg(j.id ORDER BY j.id) INTO froms FROM jobs j
         WHERE j.id = ANY (froms) AND j.id <> p_job AND j.result -> 'mergedIntoJobId' IS DISTINCT FROM to_jsonb(p_job);
    END IF;
    IF froms IS NOT NULL THEN
        free := ARRAY(SELECT j.id FROM jobs j WHERE j.id = ANY (froms) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED);
        UPDATE jobs j SET result = j.result || jsonb_build_object('mergedIntoJobId', p_job) WHERE j.id = ANY (free);
        INSERT INTO job_additions (tenant_id, catalog_id, product_ids, from_job_id, job_id)
        SELECT '00000000-0000-0000-0000-000000000000', '', '[]', x.id, p_job FROM unnest(froms) x(id) WHERE x.id <> ALL (free);
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".fold IS 'Internal: takes a catalog''s additions into the job that is being reserved.';
