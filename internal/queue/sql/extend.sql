-- extend: the heartbeat, for all jobs of a process in one statement.
-- $1 ids  $2 lock tokens  $3 leases in ms
-- returns: the ids extended; the others are lost, or somebody holds their row's lock
-- locks: those rows in id order, passing over locked ones
-- The status is not asked for, for the reason that complete gives.
WITH mine AS MATERIALIZED (
    SELECT j.id, a.lease_ms
      FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) AS a (id, token, lease_ms)
      JOIN :"schema".jobs j ON j.id = a.id AND j.lock_token = a.token
     ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
)
UPDATE :"schema".jobs j
   SET lease_expires_at = clock_timestamp() + m.lease_ms * interval '1 ms', updated_at = clock_timestamp()
  FROM mine m
 WHERE j.id = m.id
RETURNING j.id
