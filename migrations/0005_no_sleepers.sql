-- 0005 no_sleepers: whether it is certain that nobody sleeps, for each commit to ask. See note_sleeper and nobody_sleeps in notify.sql.
-- locks: none that anybody can wait for, the sequence is new.

-- A sequence, since it is read and written at once, without regard to transactions, and to read it costs less than to begin a query. Its
-- number means nothing: it says by having been used that nobody sleeps. One that is new, was restarted, or came without its state from a
-- dump or a replication says nothing, and commits look in workers.
CREATE SEQUENCE :"schema".no_sleepers;
COMMENT ON SEQUENCE :"schema".no_sleepers IS 'Internal: used (is_called) while it is certain that no worker wants to be told of jobs; else commits look in workers.';
-- The trigger that reads it runs with the rights of the schema's owner, whoever migrates.
DO $$ BEGIN
    EXECUTE format('ALTER SEQUENCE %I.no_sleepers OWNER TO %s', :'schema',
                   (SELECT c.relowner::regrole FROM pg_class c WHERE c.oid = format('%I.workers', :'schema')::regclass));
END $$;
