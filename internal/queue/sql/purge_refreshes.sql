-- purge_refreshes: removes refreshes that ended long ago, a small batch at a time.
-- $1 age in seconds  $2 at most so many  $3 not those with a lower id: see purge
-- returns: how many, the highest id of them
-- locks: those rows, passing over locked ones
WITH gone AS (
        DELETE FROM :"schema".refreshes
         WHERE id = ANY (ARRAY(
                SELECT id FROM :"schema".refreshes
                 WHERE status <> 'ACTIVE' AND finished_at < now() - $1::float8 * interval '1 second' AND id >= $3
                 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))
        RETURNING id)
SELECT count(*), coalesce(max(id), $3) FROM gone
