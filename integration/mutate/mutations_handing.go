package main

const handSQL = "triggers/24_hand_over.sql"

// handing is what a commit hands to a sleeper, and how others take it over. How that one takes it is in handedTaken.
var handing = []mutation{
	{
		what: "a commit hands over what it enqueues", file: notifySQL, in: queueTests, run: `TestADueJobIsHanded`,
		old: "IF NEW.run_after <= clock_timestamp() AND hand_over(NEW.id) THEN", new: "IF false THEN",
	},
	{
		what: "with its owner's rights", file: notifySQL, in: "./docs/", run: `TestTheRoles`,
		old: "announce_work() RETURNS trigger\n    LANGUAGE plpgsql SECURITY DEFINER", new: "announce_work() RETURNS trigger\n    LANGUAGE plpgsql",
	},
	{
		what: "and nobody else may use that trigger", file: notifySQL, in: "./docs/", run: `TestWhatRuns`,
		old: "REVOKE ALL ON FUNCTION :\"schema\".announce_work FROM PUBLIC;\n", new: "",
	},
	{
		what: "one job a transaction", file: handSQL, in: queueTests, run: `TestATransactionHandsOver`,
		old: "    PERFORM set_config('notifyworker.handed', 'tried', true);\n", new: "",
	},
	{
		what: "a session that has ended is handed nothing", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "NOT pg_try_advisory_xact_lock_shared(1853292549, c.key) AND", new: "true AND",
	},
	{
		what: "so many at once", file: handSQL, in: queueTests, run: `TestOnlySoManyCommits`,
		old: " AND EXISTS (SELECT FROM generate_series(0, 7) i WHERE pg_try_advisory_xact_lock(1853292550, (c.key & ~7) + (pg_backend_pid() + i & 7)))", new: "",
	},
	{
		what: "and who comes after them says so", file: handSQL, in: queueTests, run: `TestOnlySoManyCommits`,
		old: "            PERFORM pg_notify(channel(), '{\"commits\":\"many\"}');\n            RETURN true;\n", new: "            RETURN false;\n",
	},
	{
		what: "but not of a worker whose session has ended", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "                      AND NOT pg_try_advisory_xact_lock_shared(1853292549, (w.hands -> 'key')::integer)) THEN", new: "                      ) THEN",
	},
	{
		what: "a worker that has fallen silent is handed nothing", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: " AND w.last_beat > at - interval '15 s' ORDER", new: " ORDER",
	},
	{
		what: "what is not due is not handed over", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "j.status = 'PENDING' AND j.run_after <= at\n", new: "j.status = 'PENDING'\n",
	},
	{
		what: "a job that changed in its transaction", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "WHERE j.id = p_id AND j.status = 'PENDING' AND", new: "WHERE j.id = p_id AND",
	},
	{
		what: "a job that was joined in its transaction", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "AND CASE WHEN j.type = 'PRICE_REFRESH' THEN is_whole(", new: "AND CASE WHEN false THEN is_whole(",
	},
	{
		what: "a trigger that raises keeps no job from being enqueued", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses it, say: that is", new: "EXCEPTION WHEN division_by_zero THEN -- that is",
	},
	{
		what: "nor one that may raise later", file: handSQL, in: queueTests, run: `TestAJobThatCannotBeHandedOver`,
		old: "AND t.tgdeferrable AND NOT t.tgisinternal AND", new: "AND false AND",
	},
	{
		what: "the lease of the type", file: handSQL, in: queueTests, run: `TestAJobIsHandedOverUnderTheLease`,
		old: "coalesce((sleeper.hands -> 'leases' ->> j.type)::integer, (sleeper.hands -> 'lease')::integer)", new: "(sleeper.hands -> 'lease')::integer",
	},
	{
		what: "the token names the session", file: handSQL, in: queueTests, run: `TestAJobThatItsWorkerLetLie`,
		old: "(token || lpad(to_hex(sleeper.key), 8, '0'))::uuid", new: "gen_random_uuid()",
	},
	{
		what: "each schema has locks of its own", file: handSQL, in: queueTests, run: `TestTwoSchemas`,
		old: "hashtextextended(:'schema', 1853292551)", new: "1853292551",
	},
	{
		what: "only what was handed over is taken over", file: handSQL, in: queueTests, run: `TestAJobIsNotTakenOver`,
		old: "CASE WHEN substr(token::text, 15, 1) = '8' THEN ('x' || right(token::text, 8))::bit(32)::integer END", new: "('x' || right(token::text, 8))::bit(32)::integer",
	},
	{
		what: "who takes a job over has its lock", file: handSQL, in: queueTests, run: `TestAJobIsNotTakenOver`,
		old: " AND pg_try_advisory_xact_lock(taken_key(p_job))", new: "",
	},
	{
		what: "nobody takes over from a session that has ended", file: handSQL, in: queueTests, run: `TestAJobIsNotTakenOver`,
		old: "RETURN EXISTS (SELECT FROM pg_locks l", new: "RETURN true OR EXISTS (SELECT FROM pg_locks l",
	},
	{
		what: "a row that somebody has locked is not taken over", file: handSQL, in: queueTests, run: `TestTakingOverWaits`,
		old: "j.lock_token = r.lock_token FOR UPDATE SKIP LOCKED;", new: "j.lock_token = r.lock_token FOR UPDATE;",
	},
	{
		what: "no more is taken over than is asked for", file: handSQL, in: queueTests, run: `TestNoMoreIsTakenOver`,
		old: "        EXIT WHEN cardinality(lain) >= p_limit;\n", new: "",
	},
	{
		what: "who lets a job lie is handed no more", file: handSQL, in: queueTests, run: `TestAWorkerThatLetsAJobLie`,
		old: "        UPDATE workers w SET hands = NULL\n", new: "        UPDATE workers w SET hands = w.hands\n",
	},
	{
		what: "a job that was never started loses no attempt", file: "triggers/45_requeue.sql", in: queueTests, run: `TestAHandedJob`,
		old: "unstarted := has_hands(handed_key(a.lock_token));", new: "unstarted := false;",
	},
	{
		what: "a job that was taken loses one", file: "triggers/45_requeue.sql", in: queueTests, run: `TestAHandedJob`,
		old: "IF p_cause = 'rescued' AND was_let_lie(p_id, a.lock_token) THEN", new: "IF p_cause = 'rescued' AND handed_key(a.lock_token) IS NOT NULL THEN",
	},
}
