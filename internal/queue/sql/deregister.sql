-- deregister: this process ends.
-- $1 worker id
-- locks: its own row
DELETE FROM :"schema".workers WHERE id = $1::text::uuid
