-- Waking workers: notify at commit, and only while somebody wants to be told.
--
-- A commit that notifies takes a lock that serialises all notifying commits of the server, so a busy fleet must not cause
-- any. A worker with nothing to do sets workers.wants_notify and commits; takes the barrier exclusively for a moment, so
-- that every commit that may not have seen its wish is over; looks once more; and only then sleeps. A commit takes the
-- barrier shared, looks whether anybody wants to be told, and notifies or not; it holds the barrier to its end. While it is
-- certain that nobody does, it looks at no_sleepers alone.
-- A commit never waits for the barrier: not getting it means that a worker is falling asleep right now, so it notifies.

-- channel: where this schema's workers listen: its name, which like every channel has at most 63 bytes.
CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN :'schema';
COMMENT ON FUNCTION :"schema".channel IS 'The NOTIFY channel of this schema.';

-- somebody_sleeps: whether this commit has to notify: a worker wants to be told, or may be about to. announce_work asks the same
-- in its own body.
-- locks: barrier (tried, shared)
CREATE OR REPLACE FUNCTION :"schema".somebody_sleeps() RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    -- A REPEATABLE READ or SERIALIZABLE snapshot may be older than the wish: don't look, notify.
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
       AND pg_try_advisory_xact_lock_shared(1853292547, hashtext(:'schema')) THEN
        -- Lock in one statement, look in the next: only that one's snapshot is younger than the lock.
        RETURN EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute');
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION :"schema".somebody_sleeps IS 'Internal: whether the commit of this transaction has to wake a worker.';

-- announce: tells the workers what to look for. A key too long for a payload (8,000 bytes) is sent as "look at everything".
-- locks: nothing; the commit takes the server's lock of notifying commits
CREATE OR REPLACE FUNCTION :"schema".announce(type text, tenant uuid, catalog text, due timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    payload constant text := json_strip_nulls(json_build_object('type', announce.type, 'tenant', announce.tenant, 'catalog', announce.catalog,
        'due', CASE WHEN announce.due > clock_timestamp() THEN ceil(extract(epoch FROM announce.due) * 1000)::bigint END));
BEGIN
    PERFORM pg_notify(channel(), CASE WHEN octet_length(payload) < 7900 THEN payload ELSE '{}' END);
END $$;
COMMENT ON FUNCTION :"schema".announce IS 'Notifies this schema''s channel of a job, or of what joins one.';

-- announce_work: a commit with a job that is PENDING from now on, or due earlier, or with a marked addition, which no waiting job
-- has announced, notifies if a worker wants to be told, or may be about to. One function does it all, as a call of another one
-- costs each enqueue more than what it asks.
--
-- It runs with the rights of its owner: who may enqueue need not be able to change jobs, or to see workers, for the job to be handed
-- over. Nobody else may put it on a table of theirs.
-- locks: barrier (tried, shared), and those of hand_over
CREATE OR REPLACE FUNCTION :"schema".announce_work() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
DECLARE
    may_look boolean := false;
BEGIN
    -- A REPEATABLE READ or SERIALIZABLE snapshot may be older than the wish: don't look, notify.
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
       AND pg_try_advisory_xact_lock_shared(1853292547, hashtext(:'schema')) THEN
        -- Lock in one statement, look in the next: it is younger than the lock. First at what needs no query, before all else:
        -- this is on the way of each enqueue beside a busy fleet.
        IF pg_sequence_last_value('no_sleepers'::regclass) IS NOT NULL THEN
            RETURN NULL;
        END IF;
        may_look := true;
    END IF;
    IF TG_TABLE_NAME = 'jobs' THEN
        IF NEW.status <> 'PENDING' OR (OLD.status = 'PENDING' AND NEW.run_after >= OLD.run_after) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF may_look THEN
        IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN
            RETURN NULL;
        END IF;
        IF TG_TABLE_NAME = 'jobs' AND TG_OP = 'INSERT' THEN
            IF NEW.run_after <= clock_timestamp() AND hand_over(NEW.id) THEN
                RETURN NULL;
            END IF;
        END IF;
    END IF;
    IF TG_TABLE_NAME = 'jobs' THEN
        PERFORM announce(NEW.type, NEW.tenant_id, NEW.catalog_id, NEW.run_after);
    ELSE
        PERFORM announce('PRICE_REFRESH', NEW.tenant_id, NEW.catalog_id, NEW.run_after);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION :"schema".announce_work FROM PUBLIC;
COMMENT ON FUNCTION :"schema".announce_work IS 'Trigger: announces a job or a marked addition when a worker sleeps.';

-- Deferred to the commit: the barrier is held for the commit alone, never for the length of a client's transaction. Their
-- WHEN are short for the reason that those of the guard are.
DROP TRIGGER IF EXISTS jobs_announce_insert ON :"schema".jobs;
CREATE CONSTRAINT TRIGGER jobs_announce_insert AFTER INSERT ON :"schema".jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION :"schema".announce_work();
DROP TRIGGER IF EXISTS jobs_announce_update ON :"schema".jobs;
CREATE CONSTRAINT TRIGGER jobs_announce_update AFTER UPDATE OF status, run_after ON :"schema".jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.status = 'PENDING')
    EXECUTE FUNCTION :"schema".announce_work();
DROP TRIGGER IF EXISTS job_additions_announce ON :"schema".job_additions;
CREATE CONSTRAINT TRIGGER job_additions_announce AFTER INSERT OR UPDATE OF marked ON :"schema".job_additions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.marked)
    EXECUTE FUNCTION :"schema".announce_work();

-- note_sleeper: whoever wants to be told, or says so anew by a beat, says that somebody may sleep. Before the wish is committed, and under a lock
-- that is held to the commit: so nobody_sleeps, which can't see it yet, doesn't say the contrary afterwards. When the transaction fails, it
-- has said too much, and commits look in vain.
-- locks: sleepers (shared; waits for nobody_sleeps, which waits for nobody), after the worker's row
CREATE OR REPLACE FUNCTION :"schema".note_sleeper() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1853292553, hashtext(:'schema'));
    IF pg_sequence_last_value('no_sleepers'::regclass) IS NOT NULL THEN
        PERFORM setval('no_sleepers'::regclass, 1, false);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION :"schema".note_sleeper FROM PUBLIC;
COMMENT ON FUNCTION :"schema".note_sleeper IS 'Trigger: says that a worker may sleep, so that commits look which one.';

DROP TRIGGER IF EXISTS workers_note_sleeper ON :"schema".workers;
CREATE TRIGGER workers_note_sleeper AFTER INSERT OR UPDATE OF wants_notify, last_beat ON :"schema".workers
    FOR EACH ROW WHEN (NEW.wants_notify)
    EXECUTE FUNCTION :"schema".note_sleeper();

-- nobody_sleeps: says so for commits to know, unless a live worker wants to be told, or is about to. A worker calls it when it has taken its wish back
-- and committed that; a call in a transaction that has written something does nothing, since what it sees of itself may be undone.
-- Whoever can't have the lock leaves it to the next one: that somebody may sleep is never wrong.
-- locks: sleepers (tried)
CREATE OR REPLACE FUNCTION :"schema".nobody_sleeps() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF pg_sequence_last_value('no_sleepers'::regclass) IS NOT NULL OR pg_current_xact_id_if_assigned() IS NOT NULL
       OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
       OR NOT pg_try_advisory_xact_lock(1853292553, hashtext(:'schema')) THEN
        RETURN;
    END IF;
    -- Lock in one statement, look in the next: what was said before is committed, and what comes is said afterwards.
    IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN
        PERFORM setval('no_sleepers'::regclass, 1);
    END IF;
END $$;
REVOKE ALL ON FUNCTION :"schema".nobody_sleeps FROM PUBLIC;
COMMENT ON FUNCTION :"schema".nobody_sleeps IS 'For workers: says that nobody wants to be told, if that is so.';

-- barrier: true once every commit that may have missed this worker's wish to be told is over. False when one of them takes
-- longer than the timeout: somebody ran the deferred triggers early (SET CONSTRAINTS … IMMEDIATE) and keeps the
-- transaction open; the caller must not trust its sleep then.
-- locks: barrier (exclusive, waited for up to the timeout)
CREATE OR REPLACE FUNCTION :"schema".barrier(timeout_ms integer) RETURNS boolean
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    PERFORM set_config('lock_timeout', timeout_ms || 'ms', true);
    PERFORM pg_advisory_xact_lock(1853292547, hashtext(:'schema'));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION :"schema".barrier IS 'Waits until the commits under way are over, at most timeout_ms; says whether they are.';
