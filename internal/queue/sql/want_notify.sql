-- want_notify: from this commit on, commits tell this process of jobs, or don't; and hand it jobs, or don't.
-- $1 worker id  $2 wants to be told  $3 hands, as workers.hands has it, or NULL        returns: one row, or none when the row is gone
-- locks: its own row; sleepers (shared), if it wants to be told
UPDATE :"schema".workers SET wants_notify = $2, hands = $3::text::jsonb, last_beat = clock_timestamp() WHERE id = $1::text::uuid RETURNING id
