-- Waking workers: notify at commit, and only while somebody wants to be told.
--
-- A commit that notifies takes a lock that serialises all notifying commits of the server, so a busy fleet must not cause
-- any. A worker with nothing to do sets workers.wants_notify and commits; takes the barrier exclusively for a moment, so
-- that every commit that may not have seen its wish is over; looks once more; and only then sleeps. A commit takes the
-- barrier shared, looks whether anybody wants to be told, and notifies or not; it holds the barrier to its end. While nobody
-- does, it looks at "sleepers" alone.
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
        IF pg_sequence_last_value('sleepers'::regclass) IS NULL THEN
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

-- note_sleepers: whoever wants to be told, or says so anew by a beat, sets "sleepers"; who takes it back clears it if it was the last one
-- that is alive. So what says "nobody" is right, and what says "somebody" is looked at. A sequence is written at once and stays so when the
-- transaction fails: set, it says too much; cleared, it leaves out nobody but one whose wish was just taken back in vain, who knows
-- that (and says it anew by its next beat).
--
-- Set under the lock shared, cleared under it alone, and held to the commit: whoever clears it sees all wishes that were set
-- before, and those that come set it afterwards. Neither waits longer than for such a statement's commit.
-- locks: sleepers (shared to set, exclusive to clear), after its own row
CREATE OR REPLACE FUNCTION :"schema".note_sleepers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF NEW.wants_notify THEN
        PERFORM pg_advisory_xact_lock_shared(1853292553, hashtext(:'schema'));
        IF pg_sequence_last_value('sleepers'::regclass) IS NULL THEN
            PERFORM setval('sleepers'::regclass, 1);
        END IF;
        RETURN NULL;
    END IF;
    IF pg_sequence_last_value('sleepers'::regclass) IS NULL
       OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') -- an old snapshot may not see a wish
       OR EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(1853292553, hashtext(:'schema'));
    -- Lock in one statement, look in the next.
    IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN
        PERFORM setval('sleepers'::regclass, 1, false);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION :"schema".note_sleepers FROM PUBLIC;
COMMENT ON FUNCTION :"schema".note_sleepers IS 'Trigger: keeps whether anybody may sleep, for commits to ask without a query.';

DROP TRIGGER IF EXISTS workers_note_sleepers ON :"schema".workers;
CREATE TRIGGER workers_note_sleepers AFTER INSERT OR UPDATE OF wants_notify, last_beat ON :"schema".workers
    FOR EACH ROW EXECUTE FUNCTION :"schema".note_sleepers();

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
