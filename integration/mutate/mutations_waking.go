package main

const notifySQL = "triggers/25_notify.sql"

// waking is notify, wish, barrier.
var waking = []mutation{
	{
		what: "a commit's shared barrier", file: notifySQL, run: `TestNoWakeUp`, all: true,
		old: "\n       AND pg_try_advisory_xact_lock_shared(1853292547, hashtext(:'schema')) THEN", new: " THEN",
	},
	{
		what: "a commit only tries the barrier", file: notifySQL, run: `TestACommitNotifies`, all: true,
		old: "\n       AND pg_try_advisory_xact_lock_shared(1853292547, hashtext(:'schema')) THEN", new: "\n       AND pg_advisory_xact_lock_shared(1853292547, hashtext(:'schema')) IS NOT NULL THEN",
	},
	{
		what: "a commit that does not get the barrier notifies", file: notifySQL, run: `TestACommitNotifies`,
		old: "        may_look := true;\n", new: "        may_look := true;\n    ELSIF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN\n        RETURN NULL;\n",
	},
	{
		what: "the look whether anybody wishes", file: notifySQL, in: queueTests, run: `TestCommitsLookFor`,
		old: "    IF may_look THEN\n        IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN", new: "    IF may_look THEN\n        IF false THEN",
	},
	{
		what: "who wishes says that somebody may sleep", file: notifySQL, run: `TestNoWakeUp`,
		old: "        PERFORM setval('no_sleepers'::regclass, 1, false);\n", new: "        NULL;\n",
	},
	{
		what: "and keeps others from saying the contrary", file: notifySQL, in: queueTests, run: `TestNobodySays|TestAWishWaits`,
		old: "    PERFORM pg_advisory_xact_lock_shared(1853292553, hashtext(:'schema'));\n", new: "",
	},
	{
		what: "a beat says a wish anew", file: notifySQL, in: queueTests, run: `TestCommitsLookFor`,
		old: "AFTER INSERT OR UPDATE OF wants_notify, last_beat ON", new: "AFTER INSERT OR UPDATE OF wants_notify ON",
	},
	{
		what: "who has taken its wish back says that nobody sleeps", file: notifySQL, in: queueTests, run: `TestCommitsLookFor`,
		old: "        PERFORM setval('no_sleepers'::regclass, 1);\n", new: "        NULL;\n",
	},
	{
		what: "under the lock alone", file: notifySQL, in: queueTests, run: `TestNobodySays|TestAWishWaits`,
		old: "\n       OR NOT pg_try_advisory_xact_lock(1853292553, hashtext(:'schema')) THEN", new: " THEN",
	},
	{
		what: "after a look", file: notifySQL, in: queueTests, run: `TestCommitsLookFor`,
		old: "    -- Lock in one statement, look in the next: what was said before is committed, and what comes is said afterwards.\n    IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN", new: "    IF true THEN",
	},
	{
		what: "not by an old snapshot", file: notifySQL, in: queueTests, run: `TestWhoCannotKnow`,
		old: "\n       OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')", new: "",
	},
	{
		what: "nor by what may be undone", file: notifySQL, in: queueTests, run: `TestWhoCannotKnow`,
		old: " OR pg_current_xact_id_if_assigned() IS NOT NULL", new: "",
	},
	{
		what: "no look at an old snapshot", file: notifySQL, run: `TestNoWakeUp`, all: true,
		old: "IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')\n       AND pg_try", new: "IF pg_try",
	},
	{
		what: "the worker's barrier", file: notifySQL, run: `TestNoWakeUp`,
		old: "    PERFORM pg_advisory_xact_lock(1853292547, hashtext(:'schema'));\n", new: "",
	},
	{
		what: "the barrier's timeout", file: notifySQL, run: `TestABarrier`,
		old: "EXCEPTION WHEN lock_not_available THEN\n    RETURN false;", new: "EXCEPTION WHEN lock_not_available THEN\n    RETURN true;",
	},
	{
		what: "the triggers wait for the commit", file: notifySQL, run: `TestAnOpenTransaction`, all: true,
		old: "DEFERRABLE INITIALLY DEFERRED", new: "DEFERRABLE INITIALLY IMMEDIATE",
	},
	{
		what: "the announcement of a new job", file: notifySQL, run: `TestNoWakeUp`,
		old: "    FOR EACH ROW EXECUTE FUNCTION :\"schema\".announce_work", new: "    FOR EACH ROW WHEN (false) EXECUTE FUNCTION :\"schema\".announce_work",
	},
	{
		what: "the announcement of a job that is due earlier", file: notifySQL, run: `TestNoWakeUp`,
		old: "(OLD.status = 'PENDING' AND NEW.run_after >= OLD.run_after)", new: "OLD.status = 'PENDING'",
	},
	{
		what: "the announcement of a job that comes back", file: notifySQL, run: `TestNoWakeUp`,
		old: "(OLD.status = 'PENDING' AND NEW.run_after >= OLD.run_after)", new: "NEW.run_after >= OLD.run_after",
	},
	{
		what: "the announcement of a marked addition", file: notifySQL, run: `TestNoWakeUp`,
		old: "    FOR EACH ROW WHEN (NEW.marked)\n", new: "    FOR EACH ROW WHEN (false)\n",
	},
	{
		what: "a schema has a barrier of its own", file: notifySQL, run: `TestB50`, all: true,
		old: "hashtext(:'schema')", new: "0",
	},
	{
		what: "only who wishes it is told", file: notifySQL, run: `TestNobodyIsTold`, all: true,
		old: "WHERE w.wants_notify AND w.last_beat", new: "WHERE w.last_beat",
	},
	{
		what: "the wish", file: "internal/queue/sql/want_notify.sql", run: `TestNoWakeUp`,
		old: "SET wants_notify = $2,", new: "SET wants_notify = $2 AND false,",
	},
	{
		what: "a wish comes with a sign of life", file: "internal/queue/sql/want_notify.sql", in: queueTests, run: `TestCommitsNotify`,
		old: ", last_beat = clock_timestamp()", new: "",
	},
	{
		what: "a beat says who else wishes it", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestCommitsNotify`,
		old: "WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '15 s'", new: "WHERE false",
	},
}
