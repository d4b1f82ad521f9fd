-- purge: removes finished jobs of some outcomes that ended long ago, a small batch at a time, the oldest first.
-- $1 statuses, of the finished ones  $2 age in seconds  $3 at most so many
-- returns: nothing; the number of rows is the number of jobs removed
-- locks: those rows, passing over locked ones. Lives from jobs_stats_idx.
DELETE FROM :"schema".jobs
 WHERE id = ANY (ARRAY(
        SELECT id FROM :"schema".jobs
         WHERE finished_at < now() - $2::float8 * interval '1 second'
           AND status = ANY ($1::text[]) AND status IN ('COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED')
         ORDER BY finished_at LIMIT $3 FOR UPDATE SKIP LOCKED))
