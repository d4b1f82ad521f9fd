-- Seats: of many idle workers only a few listen.
--
-- A commit that notifies signals every session of its database that listens, so a hundred sleepers cost it more than its own
-- work. So there are four seats, and only who has one listens. A seat is a session lock of the listening session: the server
-- frees it at the moment that the session ends, and gives it to the one who has waited longest. Four, so that one who has
-- frozen on his seat is covered by three others. Who becomes busy leaves his seat at once, so that whoever is idle listens
-- in his place. Sleepers without a seat want to hear nothing (wants_notify); their turn comes with a seat.
-- Why nothing is missed: see docs/protocol.md.

-- take_seat: the number of a free seat, or of that one of the four, chosen by lot, which became free within p_wait_ms; NULL
-- when none did. unheard: and work has been due for a while, though nobody who lives wants to hear of it.
-- The wait must be short: it holds back vacuum. Where the server logs long waits for locks, it is so short that none is logged.
-- locks: seat (the session's own; tried, then waited for)
CREATE OR REPLACE FUNCTION :"schema".take_seat(p_wait_ms integer, OUT seat integer, OUT unheard boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    any_seat integer := floor(random() * 4);
BEGIN
    unheard := false;
    FOR i IN any_seat..any_seat + 3 LOOP
        IF pg_try_advisory_lock(1853292549, hashtext(:'schema' || '/seat ' || i % 4)) THEN
            seat := i % 4;
            RETURN;
        END IF;
    END LOOP;
    IF p_wait_ms <= 0 THEN
        RETURN;
    END IF;
    IF current_setting('log_lock_waits')::boolean THEN
        p_wait_ms := least(p_wait_ms, greatest(extract(epoch FROM current_setting('deadlock_timeout')::interval) * 900, 50));
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', p_wait_ms || 'ms', true);
        PERFORM pg_advisory_lock(1853292549, hashtext(:'schema' || '/seat ' || any_seat));
        seat := any_seat;
        RETURN;
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '6 s') THEN
        unheard := coalesce((SELECT due_ms < -50 FROM next_due()), false);
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".take_seat IS 'For workers: takes one of the few seats of those who listen, or waits for one.';

-- end_seat: ends a worker's earlier session, which the worker has given up since it heard nothing there, if it has a seat.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".end_seat(p_backend bigint) RETURNS boolean
    LANGUAGE sql SET search_path = :"schema", pg_temp AS $$
    SELECT coalesce(bool_or(pg_terminate_backend(l.pid)), false)
      FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
     WHERE l.pid = p_backend AND l.locktype = 'advisory' AND l.classid = 1853292549 AND l.objsubid = 2;
$$;
COMMENT ON FUNCTION :"schema".end_seat IS 'For workers: ends an earlier listening session of the caller that lost its client.';
