-- take_look: the job that take_lock was about, if it is the worker's and has not been taken back.
-- $1 job  $2 worker        returns: the job as reserve does, but for look_ms, which is how much is left of its lease
-- locks: nothing
SELECT j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token,
       j.attempts, j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at,
       NULL::double precision, NULL::double precision, extract(epoch FROM j.lease_expires_at - clock_timestamp())::double precision * 1000
  FROM :"schema".jobs j WHERE j.id = $1 AND j.worker_id = $2::text::uuid AND :"schema".handed_key(j.lock_token) IS NOT NULL
