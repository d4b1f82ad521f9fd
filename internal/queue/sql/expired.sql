-- expired: jobs whose lease has ended, the longest ended first.
-- $1 at most so many        returns: id, type, attempts, worker
-- locks: nothing; each is rescued by a call of its own. Lives from jobs_lease_idx.
SELECT id, type, attempts, max_attempts, worker_id::text
  FROM :"schema".jobs
 WHERE status = 'RUNNING' AND lease_expires_at <= clock_timestamp()
 ORDER BY lease_expires_at LIMIT $1
