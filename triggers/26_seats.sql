-- Seats: of many idle workers only a few listen.
--
-- A commit that notifies signals every session of its database that listens, so a hundred sleepers cost it more than its own
-- work. So a large fleet has four seats, and only who has one listens. A seat is the lock of a view, held by a transaction
-- that does nothing else, on a connection that does nothing else. The server frees it at the moment that the session ends,
-- and gives it to the one who has waited longest. Four, so that one who has frozen on its seat is covered by three others.
-- Who becomes busy leaves its seat, so that whoever is idle listens in its place. Why nothing is missed: see docs/protocol.md.
--
-- Who waits says LOCK TABLE itself, not in a function: that statement needs no snapshot, so neither those who wait nor those
-- who have a seat hold back vacuum. (A wait for an advisory lock has a snapshot.) The names must be in the session's caches,
-- or a snapshot of the catalog is kept through the wait: take_seat, in the same transaction before, sees to that.

-- seat_locks: who has, or waits for, which seat.
CREATE OR REPLACE FUNCTION :"schema".seat_locks() RETURNS TABLE (seat integer, pid integer, granted boolean, since timestamptz)
    LANGUAGE sql STABLE SET search_path = :"schema", pg_temp AS $$
    SELECT substr(c.relname, 6)::integer, l.pid, l.granted, l.waitstart
      FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
     WHERE l.locktype = 'relation' AND l.mode = 'ShareUpdateExclusiveLock'
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND c.relnamespace = to_regnamespace(quote_ident(:'schema')) AND c.relname IN ('seat_1', 'seat_2', 'seat_3', 'seat_4');
$$;
COMMENT ON FUNCTION :"schema".seat_locks IS 'For people: who has a seat, and who waits for one.';

-- take_seat: takes a free seat to the end of the transaction. When there is none, says for which one to wait: that with the
-- shortest line, or one that somebody has left this very moment.
-- locks: seat (tried)
CREATE OR REPLACE FUNCTION :"schema".take_seat(OUT seat integer, OUT taken boolean)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    any_seat integer := floor(random() * 4);
BEGIN
    FOR i IN any_seat..any_seat + 3 LOOP
        seat := i % 4 + 1;
        BEGIN
            EXECUTE format('LOCK TABLE %I.%I IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', :'schema', 'seat_' || seat);
            taken := true;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
    SELECT n INTO seat
      FROM generate_series(1, 4) n LEFT JOIN seat_locks() l ON l.seat = n
     GROUP BY n ORDER BY count(l.pid), random() LIMIT 1;
    taken := false;
END $$;
COMMENT ON FUNCTION :"schema".take_seat IS 'For workers: takes one of the few seats of those who listen, or says for which to wait.';

-- work_lies_there: whether something has been due for a while that nobody has taken. It looks back a minute: at what is older
-- somebody has looked by then, and behind an old snapshot there may be millions of dead entries before. Or whether something was
-- handed to one of those and lies there, or its lease has ended since.
-- locks: those of was_let_lie
CREATE OR REPLACE FUNCTION :"schema".work_lies_there() RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    at constant timestamptz := clock_timestamp() - interval '50 ms';
BEGIN
    RETURN EXISTS (SELECT FROM jobs j WHERE j.status = 'PENDING' AND j.run_after > at - interval '1 minute' AND j.run_after < at)
        OR EXISTS (SELECT FROM job_additions a
                    WHERE a.marked AND greatest(a.run_after, a.created_at) < at
                      AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id
                                                           AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
                      AND EXISTS (SELECT FROM tenants t WHERE t.id = a.tenant_id))
        OR EXISTS (SELECT FROM jobs j WHERE j.status = 'RUNNING' AND j.lease_expires_at > at - interval '1 minute'
                                        AND (j.lease_expires_at < at OR j.started_at < at AND was_let_lie(j.id, j.lock_token)));
END $$;
COMMENT ON FUNCTION :"schema".work_lies_there IS 'For workers: whether those who should have been told of work seem to have fallen silent.';

-- fill_seats: finds somebody for a seat that nobody has and nobody waits for, if somebody waits for another: whoever has
-- waited longest is called away from there, and takes this one. Those who leave their seat do it only if it matters at once:
-- when of the others at most two are taken, since their owners may have frozen, as on one host. (Who is called away shows in the server's log.)
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".fill_seats(p_always boolean) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    waits integer;
BEGIN
    SELECT (array_agg(l.pid ORDER BY l.since) FILTER (WHERE NOT l.granted))[1] INTO waits
      FROM seat_locks() l HAVING count(DISTINCT l.seat) < 4 AND (p_always OR count(*) FILTER (WHERE l.granted) <= 2);
    RETURN coalesce(pg_cancel_backend(waits), false);
EXCEPTION WHEN insufficient_privilege THEN
    RETURN false; -- workers that log in as different roles can't call each other
END $$;
COMMENT ON FUNCTION :"schema".fill_seats IS 'For workers: calls somebody to a free seat that nobody has waited for.';
