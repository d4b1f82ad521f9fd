-- complete: RUNNING → COMPLETED or COMPLETED_WITH_ERRORS, many at once, each for the holder of its token.
-- $1 ids  $2 lock tokens  $3 with errors  $4 results, JSON objects, merged into result
-- returns: the ids that are concluded; the others are lost, or somebody holds their row's lock
-- locks: those rows in id order, passing over locked ones: one row that psql has locked must not hold up the others
--
-- A row has a token exactly while it is RUNNING, so its status is not asked for: that would invite a plan that reads the
-- index of all RUNNING rows, dead entries included, where the primary key finds each row at once.
WITH mine AS MATERIALIZED (
    SELECT j.id, a.errs, a.result
      FROM unnest($1::bigint[], $2::uuid[], $3::boolean[], $4::text[]::jsonb[]) AS a (id, token, errs, result)
      JOIN :"schema".jobs j ON j.id = a.id AND j.lock_token = a.token
     ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
)
UPDATE :"schema".jobs j
   SET status = CASE WHEN m.errs THEN 'COMPLETED_WITH_ERRORS' ELSE 'COMPLETED' END,
       result = j.result || m.result, error = NULL, lock_token = NULL, lease_expires_at = NULL, worker_id = NULL,
       finished_at = clock_timestamp(), updated_at = clock_timestamp(),
       duration_ms = greatest(0, extract(epoch FROM clock_timestamp() - j.started_at) * 1000)
  FROM mine m
 WHERE j.id = m.id
RETURNING j.id
