-- progress: merges into the result of a RUNNING job, for the holder of the token.
-- $1 id  $2 lock token  $3 JSON object        returns: one row, or none when the job was lost
-- locks: that row only; touches no indexed column, so it can be HOT
UPDATE :"schema".jobs
   SET result = result || $3::text::jsonb, updated_at = clock_timestamp()
 WHERE id = $1 AND status = 'RUNNING' AND lock_token = $2::text::uuid
RETURNING id
