-- Variant cte: a reservation of a PRICE_REFRESH is the row alone; there is nothing to fold and no successor.
-- locks: nothing beyond the row
CREATE OR REPLACE FUNCTION :"schema".reserve_refresh(p_id bigint, p_worker uuid, p_lease_ms integer, p_leases jsonb, p_max_ids integer)
    RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    UPDATE jobs j SET status = 'RUNNING', successor = false, lock_token = gen_random_uuid(), worker_id = p_worker,
           attempts = least(j.attempts, 2147483646) + 1, started_at = clock_timestamp(), updated_at = clock_timestamp(),
           lease_expires_at = clock_timestamp() + coalesce((p_leases ->> 'PRICE_REFRESH')::integer, p_lease_ms) * interval '1 ms'
     WHERE j.id = p_id;
    RETURN true;
END $$;

-- leave_successor: none. Nothing is added to a job but by who has its row locked, and a cancel has it: who adds meanwhile waits
-- for its end, and then inserts a job.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".leave_successor(p_tenant uuid, p_catalog text, p_run_after timestamptz) RETURNS void
    LANGUAGE sql SET search_path = :"schema", pg_temp AS $$ SELECT $$;
