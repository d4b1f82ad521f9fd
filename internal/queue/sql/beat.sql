-- beat: this process lives, and says so to itself: its echo coming back over the listening connection proves that
-- notifications reach it.
-- $1 worker id  $2 busy slots  $3 wants to be told  $4 echo channel, or ''  $5 nonce
-- returns: one row, or none when the row is gone (register again)
-- locks: its own row; the notification queue's lock at commit
UPDATE :"schema".workers
   SET busy = $2, wants_notify = $3, last_beat = clock_timestamp()
 WHERE id = $1::text::uuid
RETURNING CASE WHEN $4::text <> '' THEN pg_notify($4::text, $5::text)::text END
