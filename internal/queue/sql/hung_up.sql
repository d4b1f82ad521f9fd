-- hung_up: waits until the session has ended that took what was handed over by this key.
-- $1 key
-- locks: hands (shared, waited for: for as long as the server takes to notice that the connection is closed)
SELECT pg_advisory_xact_lock_shared(1853292549, $1)
