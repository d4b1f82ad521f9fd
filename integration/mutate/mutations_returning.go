package main

const (
	requeueSQL  = "triggers/45_requeue.sql"
	concludeSQL = "triggers/42_conclude.sql"
)

// returning is what a conclusion and the one door back to PENDING do.
var returning = []mutation{
	{
		what: "requeue's token", file: requeueSQL, run: `TestALostReservation`, all: true,
		old: "ELSE j.status = 'RUNNING' AND j.lock_token = p_token END", new: "ELSE j.status = 'RUNNING' END",
	},
	{
		what: "the end of the lease, for a rescue", file: requeueSQL, run: `TestB11`, all: true,
		old: "j.status = 'RUNNING' AND j.lease_expires_at <= at", new: "j.status = 'RUNNING'",
	},
	{
		what: "FAILED, for a replay", file: requeueSQL, run: `TestEveryPair.*/nothing`, all: true,
		old: "WHEN 'replayed' THEN j.status = 'FAILED'", new: "WHEN 'replayed' THEN true",
	},
	{
		what: "requeue's SKIP LOCKED", file: requeueSQL, run: `TestEveryPair.*/nothing`,
		old: "       FOR UPDATE SKIP LOCKED;", new: "       FOR UPDATE;",
	},
	{
		what: "requeue's row lock", file: requeueSQL, run: `TestEveryPair.*/nothing`,
		old: "       FOR UPDATE SKIP LOCKED;", new: "       ;",
	},
	{
		what: "the attempt limit", file: requeueSQL, run: `TestTheAttemptLimit`,
		old: "AND a.attempts >= least(a.max_attempts, nullif(p_limit, 0))", new: "AND false",
	},
	{
		what: "the exclusive lock of a return", file: requeueSQL, run: `TestEveryPair.*/nothing`,
		old: "ELSIF NOT pg_try_advisory_xact_lock(1853292545, stripe) THEN", new: "ELSIF false THEN",
	},
	{
		what: "the look of a return", file: requeueSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "    RETURN NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog\n                                            AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH');",
		new: "    RETURN true;",
	},
	{
		what: "a replay does not lock the catalog for itself", file: requeueSQL, run: `TestEveryPair.*/nothing`,
		old: "    IF p_client THEN\n        PERFORM", new: "    IF false THEN\n        PERFORM",
	},
	{
		what: "a replay that meets a plain INSERT is merged", file: requeueSQL, run: `TestAReplayThatMeets`,
		old: "    IF p_client THEN\n        BEGIN", new: "    IF false THEN\n        BEGIN",
	},
	{
		what: "a replay's shared lock", file: requeueSQL, run: `TestAReplayThatIsAbout`,
		old: "        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);\n", new: "",
	},
	{
		what: "a replay's \"creating\"", file: requeueSQL, run: `TestEveryPair.*/nothing`,
		old: "IF NOT (pg_try_advisory_xact_lock(1853292546, stripe)\n                AND", new: "IF NOT (true AND",
	},
	{
		what: "a replay asks who is beside it", file: requeueSQL, run: `TestAPlainInsertThat`,
		old: "\n                AND pg_try_advisory_lock(1853292552, stripe) AND pg_advisory_unlock(1853292552, stripe)) THEN", new: ") THEN",
	},
	{
		what: "and lets go of the lock by which it asks", file: requeueSQL, run: `TestAReplayThatMeets`,
		old: " AND pg_advisory_unlock(1853292552, stripe)) THEN", new: ") THEN",
	},
	{
		what: "a replay does not look at an old snapshot", file: requeueSQL, run: `TestAReplayWithAnOld`,
		old: "    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN\n        RETURN false;", new: "    IF false THEN\n        RETURN false;",
	},
	{
		what: "from whom merged ids come", file: requeueSQL, run: `TestTriples`,
		old: "a.operated_by, a.trace_id, due, a.id, tries", new: "a.operated_by, a.trace_id, due, NULL, tries",
	},
	{
		what: "a return that is suppressed is an error", file: requeueSQL, run: `TestARequeueThatATrigger`,
		old: "    PERFORM check_updated(p_id, FOUND);\n    RETURN true;", new: "    RETURN true;",
	},
	{
		what: "an end that is suppressed is an error", file: requeueSQL, run: `TestARequeueThatATrigger`,
		old: "        PERFORM check_updated(p_id, FOUND);\n        outcome := 'dead';", new: "        outcome := 'dead';",
	},
	{
		what: "a merge that is suppressed is an error", file: requeueSQL, run: `TestARequeueThatATrigger`,
		old: "    PERFORM check_updated(p_id, FOUND); -- or its ids would be added once more by the next try\n", new: "",
	},
	{
		what: "a merged job ends", file: requeueSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "    UPDATE jobs j SET status = 'COMPLETED', lock_token", new: "    IF true THEN outcome := 'merged'; RETURN; END IF;\n    UPDATE jobs j SET status = 'COMPLETED', lock_token",
	},
}
