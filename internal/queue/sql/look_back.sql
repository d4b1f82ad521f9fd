-- look_back: the job that has been due for longest, if it is for $1 ms already.
-- $1 ms    returns: the due time up to which it looked; that of the job, NULL when there is none; how long the look took, in ms
-- locks: nothing. Lives from jobs_due_idx, of which it reads all dead entries: seconds, while somebody pins vacuum.
WITH edge AS MATERIALIZED (SELECT clock_timestamp() - $1 * interval '1 ms' AS at)
SELECT e.at, due.run_after, extract(epoch FROM clock_timestamp() - e.at)::float8 * 1000 - $1
  FROM edge e
  LEFT JOIN LATERAL (SELECT j.run_after FROM :"schema".jobs j WHERE j.status = 'PENDING' AND j.run_after <= e.at ORDER BY j.run_after LIMIT 1) due ON true
