-- purge: removes finished jobs of some outcomes that ended long ago, a small batch at a time, the oldest first.
-- $1 statuses; what waits or runs has no end, which a constraint sees to, and is never old enough  $2 age in seconds  $3 at most so many
-- $4 not those that ended before: what the last batch has removed lies there, dead and in the way while vacuum may not remove it
-- returns: how many, when the last of them ended
-- locks: those rows, passing over locked ones. Lives from jobs_stats_idx.
WITH gone AS (
        DELETE FROM :"schema".jobs
         WHERE id = ANY (ARRAY(
                SELECT id FROM :"schema".jobs
                 WHERE finished_at < now() - $2::float8 * interval '1 second' AND finished_at >= $4::timestamptz
                   AND status = ANY ($1::text[])
                 ORDER BY finished_at LIMIT $3 FOR UPDATE SKIP LOCKED))
        RETURNING finished_at)
SELECT count(*), coalesce(max(finished_at), $4::timestamptz) FROM gone
