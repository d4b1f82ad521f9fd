-- durations: how long jobs took, by type, over those that ended lately: the last $2 of them at most, since a busy day has millions.
-- $1 window in seconds  $2 at most so many jobs        returns: type, runs, p50 and p95 in ms, failures, when the first of them ended
-- locks: nothing. Lives from jobs_stats_idx, by an index-only scan from its end.
SELECT type, count(*),
       coalesce(percentile_cont(0.50) WITHIN GROUP (ORDER BY duration_ms), 0),
       coalesce(percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms), 0),
       count(*) FILTER (WHERE status = 'FAILED'), min(finished_at)
  FROM (SELECT type, duration_ms, status, finished_at FROM :"schema".jobs
         WHERE finished_at > now() - $1::float8 * interval '1 second'
         ORDER BY finished_at DESC LIMIT $2) lately
 GROUP BY type ORDER BY 4 DESC, 1
