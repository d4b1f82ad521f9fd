-- mine: what is RUNNING for this worker. One whose lease has ended is left to be rescued.
-- $1 worker        returns: ids and lock tokens
-- locks: nothing. Lives from jobs_lease_idx.
SELECT j.id, j.lock_token::text FROM :"schema".jobs j
 WHERE j.status = 'RUNNING' AND j.lease_expires_at > statement_timestamp() AND j.worker_id = $1::text::uuid
 ORDER BY j.id LIMIT 20000
