-- held: which of these jobs are still RUNNING under these tokens.
-- $1 ids  $2 lock tokens        returns: ids
-- locks: nothing
-- The status is not asked for, for the reason that complete gives.
SELECT j.id
  FROM unnest($1::bigint[], $2::uuid[]) AS a (id, token)
  JOIN :"schema".jobs j ON j.id = a.id AND j.lock_token = a.token
