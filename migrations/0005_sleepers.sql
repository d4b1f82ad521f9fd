-- 0005 sleepers: whether anybody may sleep, for each commit to ask. See note_sleepers in notify.sql.
-- locks: none that anybody can wait for, the sequence is new.

-- A sequence, since it is read and written without regard to transactions: what one has written, all see at once, and to read it costs a
-- fifth of a query. Its number means nothing; it says whether it has been used. At first somebody may sleep.
CREATE SEQUENCE :"schema".sleepers AS smallint MAXVALUE 2;
COMMENT ON SEQUENCE :"schema".sleepers IS 'Internal: used (is_called) while a worker may want to be told of jobs; else commits don''t look in workers.';
SELECT setval(format('%I.sleepers', :'schema')::regclass, 1);
