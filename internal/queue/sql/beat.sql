-- beat: this process lives, and says so to itself: its echo coming back over the listening connection proves that
-- notifications reach it.
-- $1 worker id  $2 busy slots  $3 echo channel, or ''  $4 nonce  $5 is in reserve, others hear in its stead, and has a free slot
-- $6 notice to all who listen, or ''
-- returns: one row: the ids of the live workers that want to be told; how many live at all; whether one in reserve should
--          look, as work is due and nobody who has given a sign of life lately wants to be told. None when this one's row is
--          gone (register again)
-- locks: its own row; sleepers (shared), if it wants to be told; the notification queue's lock at commit, if there is an echo or a notice
UPDATE :"schema".workers
   SET busy = $2, last_beat = clock_timestamp()
 WHERE id = $1::text::uuid
RETURNING (SELECT coalesce(array_agg(w.id::text), '{}') FROM :"schema".workers w
            WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '15 s'),
          (SELECT count(*) FROM :"schema".workers w WHERE w.last_beat > clock_timestamp() - interval '15 s'),
          CASE WHEN $5::boolean AND NOT EXISTS (SELECT FROM :"schema".workers w
                                                 WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '6 s')
               THEN :"schema".work_lies_there() ELSE false END,
          CASE WHEN $3::text <> '' THEN pg_notify($3::text, $4::text)::text END,
          CASE WHEN $6::text <> '' THEN pg_notify(:"schema".channel(), $6::text)::text END
