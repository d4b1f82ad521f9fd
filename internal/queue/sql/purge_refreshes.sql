-- purge_refreshes: removes refreshes that ended long ago, a small batch at a time.
-- $1 age in seconds  $2 at most so many  $3 not those with a lower id: see purge
-- returns: how many, the highest id of them
-- No index is kept for it. Refreshes end about in the order of their ids: where the thousand lowest that have ended are too
-- young, those behind them are too, or will have their turn within minutes; without that bound each batch reads all that is kept.
-- locks: those rows, passing over locked ones. Lives from the primary key.
WITH lowest AS (
        SELECT id, finished_at FROM :"schema".refreshes
         WHERE status <> 'ACTIVE' AND id >= $3 ORDER BY id LIMIT greatest($2::int, 1000)),
     gone AS (
        DELETE FROM :"schema".refreshes
         WHERE id = ANY (ARRAY(
                SELECT id FROM :"schema".refreshes
                 WHERE id = ANY (ARRAY(
                        SELECT id FROM lowest WHERE finished_at < now() - $1::float8 * interval '1 second'))
                   AND status <> 'ACTIVE' ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))
        RETURNING id)
SELECT count(*), coalesce(max(id), $3) FROM gone
