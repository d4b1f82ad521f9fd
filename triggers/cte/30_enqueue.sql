-- The first generation's protocol, for comparison: no per-catalog lock, no additions. Ids are merged into the waiting job's
-- array by INSERT … ON CONFLICT, which waits for whoever holds that row: a reservation, or another client's open transaction.
-- returns, locks: the waiting job's row, for the length of the caller's transaction
CREATE OR REPLACE FUNCTION :"schema".add_price_refresh(
    p_tenant uuid, p_catalog text, p_ids jsonb, p_full boolean, p_operated_by uuid, p_trace_id text, p_run_after timestamptz,
    p_from bigint, p_attempts integer, p_max_attempts integer, OUT job_id bigint, OUT joined boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    INSERT INTO jobs AS j (tenant_id, type, operated_by, trace_id, config, attempts, max_attempts, run_after)
    VALUES (p_tenant, 'PRICE_REFRESH', p_operated_by, p_trace_id,
            jsonb_build_object('catalogId', p_catalog, 'productIds', p_ids) || CASE WHEN p_full THEN '{"full": true}'::jsonb ELSE '{}' END,
            p_attempts, p_max_attempts, greatest(p_run_after, now()))
    ON CONFLICT (tenant_id, catalog_id) WHERE status = 'PENDING' AND type = 'PRICE_REFRESH'
    DO UPDATE SET config = j.config || jsonb_build_object('productIds', merged_ids(j.config -> 'productIds', excluded.config -> 'productIds'))
                           || CASE WHEN p_full THEN '{"full": true}'::jsonb ELSE '{}' END,
                  successor = false, updated_at = clock_timestamp()
    RETURNING j.id, j.xmax <> 0 INTO job_id, joined;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the refresh of catalog % can''t be enqueued: a trigger of yours on jobs suppresses the INSERT', p_catalog
            USING ERRCODE = 'triggered_action_exception', HINT = 'Let it raise an error, or pass over PRICE_REFRESH jobs.';
    END IF;
    PERFORM check_product_ids(p_ids);
END $$;

-- merged_ids: both arrays in order, each id once by its first place, with its JSON type; [] when both are empty.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".merged_ids(first jsonb, second jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE SET search_path = :"schema", pg_temp AS $$
    SELECT coalesce(jsonb_agg(u.e ORDER BY u.o), '[]')
      FROM (SELECT x.e, min(x.o) AS o
              FROM jsonb_array_elements(coalesce(first, '[]') || coalesce(second, '[]')) WITH ORDINALITY x(e, o) GROUP BY x.e) u;
$$;
COMMENT ON FUNCTION :"schema".merged_ids IS 'Internal, variant cte: two id arrays as one, in order, each id once.';
