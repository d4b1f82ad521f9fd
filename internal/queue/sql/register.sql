-- register: a worker process says that it lives; rows of long dead ones go.
-- $1 id  $2 host  $3 pid  $4 version  $5 slots
-- locks: its own row, and dead ones' rows (passing over locked ones)
WITH dead AS (
    DELETE FROM :"schema".workers WHERE id IN (
        SELECT id FROM :"schema".workers WHERE last_beat < clock_timestamp() - interval '10 minutes' FOR UPDATE SKIP LOCKED)
)
INSERT INTO :"schema".workers (id, host, pid, version, slots)
VALUES ($1::text::uuid, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET last_beat = clock_timestamp(), slots = excluded.slots
