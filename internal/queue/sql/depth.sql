-- depth: what waits and runs, by type.
-- returns: type, pending, of these due, of these successors, running, waiting ids, age in ms of the oldest due job
-- locks: nothing. Lives from jobs_due_idx and jobs_lease_idx: its cost is that of the unfinished jobs, not of the history.
SELECT type,
       count(*) FILTER (WHERE status = 'PENDING'),
       count(*) FILTER (WHERE status = 'PENDING' AND run_after <= clock_timestamp()),
       count(*) FILTER (WHERE status = 'RUNNING'),
       coalesce(sum(product_count) FILTER (WHERE status = 'PENDING'), 0)::bigint,
       coalesce(max(extract(epoch FROM clock_timestamp() - run_after) * 1000) FILTER (WHERE status = 'PENDING' AND run_after <= clock_timestamp()), 0)::float8
  FROM (SELECT type, status, product_count, run_after FROM :"schema".jobs WHERE status = 'PENDING'
        UNION ALL
        SELECT type, status, product_count, run_after FROM :"schema".jobs WHERE status = 'RUNNING') j
 GROUP BY type ORDER BY type
