-- look_back: the job that has been due for longest of those due between two times, and the next lease of a job or a refresh that
-- ends, or has ended, after the first of them.
-- $1 from when on  $2 until when, without it, for the job; NULL for $3 ms ago
-- returns: the due time up to which it looked; that of the job, NULL when there is none; in how many ms the lease ends, negative when
--          it has ended, NULL when there is none, which it does not ask from '-infinity' on; how long the look took, in ms
-- locks: nothing. Lives from jobs_due_idx, jobs_lease_idx and refreshes_lease_idx, of which it reads all dead entries in that time:
--        seconds from '-infinity' on, while somebody pins vacuum.
WITH edge AS MATERIALIZED (SELECT clock_timestamp() AS began, coalesce($2, clock_timestamp() - $3 * interval '1 ms') AS at)
SELECT e.at, due.run_after, extract(epoch FROM least(job.lease_expires_at, refresh.lease_expires_at) - clock_timestamp())::float8 * 1000,
       extract(epoch FROM clock_timestamp() - e.began)::float8 * 1000
  FROM edge e
  LEFT JOIN LATERAL (SELECT j.run_after FROM :"schema".jobs j
                      WHERE j.status = 'PENDING' AND j.run_after >= $1 AND j.run_after < e.at
                      ORDER BY j.run_after LIMIT 1) due ON true
  LEFT JOIN LATERAL (SELECT j.lease_expires_at FROM :"schema".jobs j
                      WHERE $1::timestamptz > '-infinity' AND j.status = 'RUNNING' AND j.lease_expires_at >= $1
                      ORDER BY j.lease_expires_at LIMIT 1) job ON true
  LEFT JOIN LATERAL (SELECT r.lease_expires_at FROM :"schema".refreshes r
                      WHERE $1::timestamptz > '-infinity' AND r.status = 'ACTIVE' AND r.lease_expires_at >= $1
                      ORDER BY r.lease_expires_at LIMIT 1) refresh ON true
