-- hands_key: the lock that says that a session lives which takes what is handed over by this key, and what that session needs: plans by
-- index whatever the statistics say, a look that sees what was committed before its lock was had, and no time-out of the role's.
-- $1 key        returns: whether it was had, which it is not when somebody else has it
-- locks: hands (tried, for the session)
SELECT pg_try_advisory_lock(1853292549, $1), set_config('enable_seqscan', 'off', false), set_config('default_transaction_isolation', 'read committed', false),
       set_config('statement_timeout', '15s', false)
