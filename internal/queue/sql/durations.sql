-- durations: how long jobs took, by type, over those that ended lately.
-- $1 window in seconds        returns: type, runs, p50 and p95 in ms, failures
-- locks: nothing. Lives from jobs_stats_idx, by an index-only scan.
SELECT type, count(*),
       coalesce(percentile_cont(0.50) WITHIN GROUP (ORDER BY duration_ms), 0),
       coalesce(percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms), 0),
       count(*) FILTER (WHERE status = 'FAILED')
  FROM :"schema".jobs
 WHERE finished_at > now() - $1::float8 * interval '1 second'
 GROUP BY type ORDER BY 4 DESC, 1
