-- Progress: what holds for a refresh while it runs.

-- progress_refresh: the first p_done ids are dealt with; the lease is extended.
-- $1 refresh  $2 its token  $3 lease in ms  $4 ids dealt with, from the first on  $5 prices recomputed since the last progress
-- $6 what failed since, [{"id", "error"}, …]
-- returns: false when the refresh is lost (not ACTIVE under this token): nothing was written. Said again, after an answer got
--          lost with its connection, it writes nothing either, and returns true
-- locks: the refresh's row
CREATE OR REPLACE FUNCTION :"schema".progress_refresh(
    p_id bigint, p_token uuid, p_lease_ms integer, p_done integer, p_recomputed bigint DEFAULT 0, p_failed jsonb DEFAULT '[]')
    RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp();
BEGIN
    UPDATE refreshes r
       SET done_count = p_done, recomputed = r.recomputed + least(p_recomputed, 9223372036854775807 - r.recomputed),
           failed = CASE WHEN p_failed = '[]' THEN r.failed WHEN r.failed_count < 100 THEN r.failed || p_failed
                         ELSE r.failed || (SELECT jsonb_agg(x.e - 'error' ORDER BY x.o) FROM jsonb_array_elements(p_failed) WITH ORDINALITY x(e, o)) END,
           failed_count = r.failed_count + jsonb_array_length(p_failed), attempts = 0,
           started_at = coalesce(r.started_at, at), lease_expires_at = at + p_lease_ms * interval '1 ms', updated_at = at
     WHERE r.id = p_id AND r.status = 'ACTIVE' AND r.lock_token = p_token AND r.done_count < p_done;
    RETURN FOUND OR EXISTS (SELECT FROM refreshes r WHERE r.id = p_id AND r.status = 'ACTIVE' AND r.lock_token = p_token AND r.done_count >= p_done);
END $$;
COMMENT ON FUNCTION :"schema".progress_refresh IS 'For workers: writes how far a refresh has come, and extends its lease.';

-- recompute_chunk: calls the user's recomputation and writes the progress, or the release, in the same transaction: what is
-- recomputed under a lost token is rolled back.
-- $1 refresh  $2 its token  $3 lease in ms
-- $4 the call, 'SELECT "schema"."name"($1, …)' over $1 tenant uuid, $2 catalog text, $3 ids jsonb, $4 ids text[]; built from
--    the catalog's names of a function that was looked up, not from a setting's text
-- $5 what it returns: count, json ({"recomputed": n, "failed": [{"id", "error"}, …]}) or nothing
-- $6 the ids, NULL for the whole catalog  $7 the same as text[], for functions that want that
-- $8 so many ids are dealt with after it; NULL for a part of a chunk, which is no progress yet
-- $9 it is the last chunk: release the refresh
-- returns: what the function said; what release_refresh says
-- raises: NW410 when the refresh is lost; NW411 when the chunk is dealt with already, by a call whose answer got lost; whatever
--         the function raises
-- locks: what the user's function takes; then the refresh's row, see release_refresh. Times are those of the moment, not
--        of the transaction's begin: the call may have taken a minute.
-- search_path is the session's, for the user's function: what is ours is written with its schema.
CREATE OR REPLACE FUNCTION :"schema".recompute_chunk(
    p_id bigint, p_token uuid, p_lease_ms integer, p_call text, p_returns text, p_ids jsonb, p_texts text[], p_done integer,
    p_last boolean, p_tenant uuid, p_catalog text,
    OUT recomputed bigint, OUT failed jsonb, OUT dead_letter_id bigint, OUT waiters integer)
    LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
    odd    jsonb;
    held   boolean;
BEGIN
    failed := '[]';
    IF p_returns = 'count' THEN
        EXECUTE p_call INTO recomputed USING p_tenant, p_catalog, p_ids, p_texts;
    ELSIF p_returns = 'json' THEN
        EXECUTE p_call INTO answer USING p_tenant, p_catalog, p_ids, p_texts;
        IF jsonb_typeof(answer) <> 'object' THEN
            RAISE EXCEPTION 'the recomputation returned a JSON %, not an object', jsonb_typeof(answer)
                USING ERRCODE = 'NW501', HINT = 'Return {"recomputed": n, "failed": [{"id": …, "error": "…"}]}, or NULL.';
        END IF;
        recomputed := CASE WHEN jsonb_typeof(answer -> 'recomputed') = 'number'
                           THEN least(greatest(trunc((answer ->> 'recomputed')::numeric), 0), 9223372036854775807)::bigint END;
        -- The product that an entry is about would pass for recomputed.
        odd := CASE jsonb_typeof(answer -> 'failed')
               WHEN 'null' THEN NULL
               WHEN 'array' THEN (SELECT x.e FROM jsonb_array_elements(answer -> 'failed') x(e)
                                   WHERE (jsonb_typeof(x.e -> 'id') IN ('string', 'number')) IS NOT TRUE
                                      OR p_ids IS NOT NULL AND x.e ->> 'id' NOT IN (SELECT mine.e #>> '{}' FROM jsonb_array_elements(p_ids) mine(e)) LIMIT 1)
               ELSE answer -> 'failed' END;
        IF odd IS NOT NULL THEN
            RAISE EXCEPTION 'the recomputation says that this failed, which was not asked for: %', left(odd::text, 200)
                USING ERRCODE = 'NW501', HINT = 'Write "failed" as [{"id": …, "error": "…"}], with ids as they were given.';
        END IF;
        -- Of a whole catalog nobody here knows the ids: what is named has failed.
        IF p_ids IS NULL AND jsonb_typeof(answer -> 'failed') = 'array' THEN
            SELECT coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'error', left(coalesce(f.error, 'no reason given'), 500)) ORDER BY f.o), '[]')
              INTO failed
              FROM (SELECT DISTINCT ON (x.e -> 'id') x.e -> 'id' AS id, nullif(x.e ->> 'error', '') AS error, x.o
                      FROM jsonb_array_elements(answer -> 'failed') WITH ORDINALITY x(e, o)
                     ORDER BY x.e -> 'id', x.o) f;
        -- Else they are ids of this chunk, each once. They are compared as text: a function
        -- that was given 7 may say that "7" failed.
        ELSIF jsonb_typeof(answer -> 'failed') = 'array' AND answer -> 'failed' <> '[]' THEN
            SELECT coalesce(jsonb_agg(jsonb_build_object('id', mine.e, 'error', left(coalesce(f.error, 'no reason given'), 500)) ORDER BY mine.o), '[]')
              INTO failed
              FROM jsonb_array_elements(coalesce(p_ids, '[]')) WITH ORDINALITY mine(e, o)
              JOIN (SELECT DISTINCT ON (x.e ->> 'id') x.e ->> 'id' AS id, nullif(x.e ->> 'error', '') AS error
                      FROM jsonb_array_elements(answer -> 'failed') WITH ORDINALITY x(e, o)
                     ORDER BY x.e ->> 'id', x.o) f ON f.id = mine.e #>> '{}';
        END IF;
    ELSE
        EXECUTE p_call USING p_tenant, p_catalog, p_ids, p_texts;
    END IF;
    recomputed := greatest(0, coalesce(recomputed, jsonb_array_length(coalesce(p_ids, '[]')) - jsonb_array_length(failed)));
    IF p_last THEN
        SELECT r.outcome = 'done', r.dead_letter_id, r.waiters INTO held, dead_letter_id, waiters
          FROM :"schema".release_refresh(p_id, p_token, recomputed, failed) r;
    ELSIF p_done IS NOT NULL THEN
        IF EXISTS (SELECT FROM :"schema".refreshes r WHERE r.id = p_id AND r.lock_token = p_token AND r.done_count >= p_done) THEN
            RAISE EXCEPTION 'refresh % is past its first % ids already', p_id, p_done USING ERRCODE = 'NW411';
        END IF;
        held := :"schema".progress_refresh(p_id, p_token, p_lease_ms, p_done, recomputed, failed);
    ELSE
        PERFORM FROM :"schema".refreshes r WHERE r.id = p_id AND r.status = 'ACTIVE' AND r.lock_token = p_token FOR SHARE;
        held := FOUND;
    END IF;
    IF NOT held THEN
        RAISE EXCEPTION 'refresh % is lost: it is not active under this token', p_id USING ERRCODE = 'NW410';
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".recompute_chunk IS 'For workers: calls the recomputation for one chunk and writes its progress in the same transaction.';

-- list_refresh: a FULL refresh gets its product ids: those that its job named, then those that the catalog has.
-- $1 refresh  $2 its token  $3 lease in ms  $4 the catalog's ids
-- returns: all ids, or NULL when the refresh is lost, or listed already
-- locks: the refresh's row
CREATE OR REPLACE FUNCTION :"schema".list_refresh(p_id bigint, p_token uuid, p_lease_ms integer, p_ids jsonb) RETURNS jsonb
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at  constant timestamptz := clock_timestamp();
    ids jsonb;
BEGIN
    SELECT r.product_ids INTO ids FROM refreshes r
     WHERE r.id = p_id AND r.status = 'ACTIVE' AND r.lock_token = p_token AND NOT r.listed FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF ids = '[]' THEN
        ids := p_ids;
    ELSE
        SELECT ids || coalesce(jsonb_agg(p.e ORDER BY p.o) FILTER (WHERE named.e IS NULL), '[]') INTO ids
          FROM jsonb_array_elements(p_ids) WITH ORDINALITY p(e, o)
          LEFT JOIN (SELECT DISTINCT n.e FROM jsonb_array_elements(ids) n(e)) named ON named.e = p.e;
    END IF;
    UPDATE refreshes r SET product_ids = ids, listed = true, lease_expires_at = at + p_lease_ms * interval '1 ms', updated_at = at
     WHERE r.id = p_id;
    RETURN ids;
END $$;
COMMENT ON FUNCTION :"schema".list_refresh IS 'For workers: writes down what a full refresh has to recompute, once.';

-- freeze_refresh: what was accepted does not change, whoever writes. After the row, not before it: a BEFORE trigger would
-- have the generated column computed anew at each heartbeat.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".freeze_refresh() RETURNS trigger
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF (NEW.job_id, NEW.tenant_id, NEW.catalog_id, NEW.scope, NEW.article_ids)
       IS DISTINCT FROM (OLD.job_id, OLD.tenant_id, OLD.catalog_id, OLD.scope, OLD.article_ids)
       OR (OLD.listed AND (NEW.product_ids IS DISTINCT FROM OLD.product_ids OR NOT NEW.listed)) THEN
        RAISE EXCEPTION 'refresh % is frozen: what was accepted can''t change', OLD.id
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Enqueue another PRICE_REFRESH.';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION :"schema".freeze_refresh IS 'Trigger: refuses changes of what a refresh was accepted for.';
CREATE OR REPLACE TRIGGER refreshes_freeze
    AFTER UPDATE OF job_id, tenant_id, catalog_id, scope, article_ids, product_ids, listed ON :"schema".refreshes
    FOR EACH ROW EXECUTE FUNCTION :"schema".freeze_refresh();
