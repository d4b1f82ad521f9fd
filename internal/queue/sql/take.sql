-- take: a job that was handed to this worker. Sent after take_lock, by the session that has it then: lock first, look second.
-- $1 job  $2 worker        returns: the job as reserve does, and how long its lease lasts, in ms; nothing when somebody else has it
-- locks: nothing
SELECT j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token, j.attempts,
       j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at, extract(epoch FROM j.lease_expires_at - clock_timestamp())::float8 * 1000
  FROM :"schema".jobs j
 WHERE j.id = $1 AND j.worker_id = $2::text::uuid
