-- take_lock: the lock that says that this worker's session has taken a job which was handed to it. Lock first, look second: take_look,
-- sent along with it, is a statement of its own, so that it sees what was committed before the lock was had. A job that an earlier session
-- was handed is not locked: others look whether that one lives, and the server may take it to live on when this one has ended.
-- $1 job  $2 worker  $3 the session's key        returns: whether it was had; no row when the job was not handed to this session of the
--        worker's, or was taken back
-- locks: taken (tried, for the session), of a job that is the worker's: or a forged notification would keep it from whose it is
SELECT pg_try_advisory_lock(:"schema".taken_key(j.id)) FROM :"schema".jobs j WHERE j.id = $1 AND j.worker_id = $2::text::uuid AND :"schema".handed_key(j.lock_token) = $3
