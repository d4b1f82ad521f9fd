-- purge_refreshes: removes refreshes that ended long ago, a small batch at a time.
-- $1 age in seconds  $2 at most so many
-- returns: nothing; the number of rows is the number of refreshes removed
-- locks: those rows, passing over locked ones
DELETE FROM :"schema".refreshes
 WHERE id = ANY (ARRAY(
        SELECT id FROM :"schema".refreshes
         WHERE status <> 'ACTIVE' AND finished_at < now() - $1::float8 * interval '1 second'
         ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))
