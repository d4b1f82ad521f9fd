-- pressure: what the server has to say about how well it can bear with us.
-- returns: one row: share of the notification queue in use (0 to 1), workers alive, of these wanting to be told;
--          then of whoever, other than this session, keeps vacuum from the most, NULLs when nobody does: pid (0: none has it), its
--          horizon as text (the same while it keeps vacuum from the same rows), the horizon's age in transactions, seconds since its
--          transaction began (NULL when this role may not see it, or it is none), application, user, state ('' likewise)
-- Sessions of this database, prepared transactions, and standbys with hot_standby_feedback: by their slot, or without one.
-- Autovacuum has no user and keeps nobody from anything; its backend_type would not be visible to every role.
-- locks: nothing. Reads shared memory alone, besides the handful of rows of workers.
WITH pinning AS (
        SELECT pid, horizon::text AS horizon, age(horizon) AS xids, xact_start, application_name, usename, state
          FROM (SELECT a.*, CASE WHEN age(backend_xmin) >= coalesce(age(backend_xid), 0) THEN backend_xmin ELSE coalesce(backend_xid, backend_xmin) END AS horizon
                  FROM pg_stat_activity a
                 WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL) a
         WHERE horizon IS NOT NULL AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
        UNION ALL
        SELECT 0, transaction::text, age(transaction), prepared, gid, owner, 'prepared'
          FROM pg_prepared_xacts WHERE database = current_database()
        UNION ALL
        SELECT coalesce(active_pid, 0), xmin::text, age(xmin), NULL, slot_name, NULL, 'replication slot'
          FROM pg_replication_slots WHERE xmin IS NOT NULL
        UNION ALL
        SELECT pid, backend_xmin::text, age(backend_xmin), NULL, application_name, usename, 'standby'
          FROM pg_stat_replication WHERE backend_xmin IS NOT NULL),
     oldest AS (SELECT * FROM pinning ORDER BY xids DESC, xact_start LIMIT 1)
SELECT pg_notification_queue_usage(), w.alive, w.wanting,
       o.pid, o.horizon, o.xids::bigint, extract(epoch FROM clock_timestamp() - o.xact_start)::float8,
       coalesce(o.application_name, ''), coalesce(o.usename::text, ''), coalesce(o.state, '')
  FROM (SELECT count(*) AS alive, count(*) FILTER (WHERE wants_notify) AS wanting
          FROM :"schema".workers WHERE last_beat > clock_timestamp() - interval '15 s') w
  LEFT JOIN oldest o ON true
