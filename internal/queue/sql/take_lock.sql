-- take_lock: keeps others from taking over a job that was handed to this worker, from here to take_unlock or the end of the session.
-- $1 job        returns: whether it was had
-- locks: taken (tried), for the session
SELECT pg_try_advisory_lock(:"schema".taken_key($1))
