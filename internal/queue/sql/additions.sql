-- additions: how many rows wait to join a job, and since when.
-- $1 counts at most so many        returns: how many, seconds since the oldest of them was made (0: none)
-- locks: nothing. A scan, which is why it is bounded: normally the table is small.
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8
  FROM (SELECT created_at FROM :"schema".job_additions LIMIT $1) a
