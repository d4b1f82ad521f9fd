-- let: gives back what take_lock had, of jobs that are this worker's no more.
-- $1 jobs, one as often as it was taken
-- locks: nothing
SELECT pg_advisory_unlock(:"schema".taken_key(x.id)) FROM unnest($1::bigint[]) x(id)
