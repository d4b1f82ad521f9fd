-- purgeable: how many finished jobs of some outcomes ended long ago.
-- $1 statuses, of the finished ones  $2 age in seconds        returns: how many
-- locks: nothing. Lives from jobs_stats_idx, by an index-only scan.
SELECT count(*) FROM :"schema".jobs
 WHERE finished_at < now() - $2::float8 * interval '1 second'
   AND status = ANY ($1::text[]) AND status IN ('COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED')
