-- take_unlock: these jobs are this worker's no more.
-- $1 jobs, each as often as its lock was had        returns: nothing of use
-- locks: gives back taken
SELECT count(pg_advisory_unlock(:"schema".taken_key(id))) FROM unnest($1::bigint[]) id
