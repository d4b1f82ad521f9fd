package main

const (
	progressSQL = "triggers/60_engine_progress.sql"
	releaseSQL  = "triggers/60_engine_release.sql"
)

// refreshing is what holds for a refresh while it runs, and its end.
var refreshing = []mutation{
	{
		what: "a refresh's progress's token", file: progressSQL, in: engineTests, run: `TestARefreshIsTakenOver|TestOnlyTheHolder`, all: true,
		old: "r.status = 'ACTIVE' AND r.lock_token = p_token AND r.done_count", new: "r.status = 'ACTIVE' AND r.done_count",
	},
	{
		what: "a progress that is said again writes nothing", file: progressSQL, in: engineTests, run: `TestAProgress`,
		old: "AND r.lock_token = p_token AND r.done_count < p_done;", new: "AND r.lock_token = p_token;",
	},
	{
		what: "a progress that is said again is none that is lost", file: progressSQL, in: engineTests, run: `TestAProgress`,
		old: "RETURN FOUND OR EXISTS", new: "RETURN FOUND AND EXISTS",
	},
	{
		what: "a progress extends the lease", file: progressSQL, in: engineTests, run: `TestAProgress`,
		old: "started_at = coalesce(r.started_at, at), lease_expires_at = at + p_lease_ms * interval '1 ms', updated_at = at\n     WHERE r.id = p_id AND r.status", new: "started_at = coalesce(r.started_at, at), updated_at = at\n     WHERE r.id = p_id AND r.status",
	},
	{
		what: "a progress ends the count of takeovers", file: progressSQL, in: engineTests, run: `TestAProgress`,
		old: "jsonb_array_length(p_failed), attempts = 0,", new: "jsonb_array_length(p_failed),",
	},
	{
		what: "what a lost chunk has written is rolled back", file: progressSQL, in: engineTests, run: `TestALostChunk`,
		old: "    IF NOT held THEN\n        RAISE", new: "    IF false THEN\n        RAISE",
	},
	{
		what: "a chunk that is dealt with is not written again", file: progressSQL, in: engineTests, run: `TestAProgressThat`,
		old: "            RAISE EXCEPTION 'refresh % is past its first % ids already', p_id, p_done USING ERRCODE = 'NW411';\n", new: "            NULL;\n",
	},
	{
		what: "the token, for a part of a chunk", file: progressSQL, in: engineTests, run: `TestOnlyTheHolder`,
		old: "r.status = 'ACTIVE' AND r.lock_token = p_token FOR SHARE;", new: "r.status = 'ACTIVE' FOR SHARE;",
	},
	{
		what: "the row's lock, for a part of a chunk", file: progressSQL, in: engineTests, run: `TestAPart`,
		old: "r.lock_token = p_token FOR SHARE;", new: "r.lock_token = p_token;",
	},
	{
		what: "a failed product counts only if it was asked for", file: progressSQL, in: engineTests, run: `TestShapes|TestPoison`,
		old: "ON f.id = mine.e #>> '{}'", new: "ON true",
	},
	{
		what: "an id that was not asked for can't have failed", file: progressSQL, in: engineTests, run: `TestAnAnswerThatNames`,
		old: "OR p_ids IS NOT NULL AND x.e ->> 'id' NOT IN (SELECT mine.e #>> '{}' FROM jsonb_array_elements(p_ids) mine(e))", new: "",
	},
	{
		what: "what failed without an id is no word to go by", file: progressSQL, in: engineTests, run: `TestAnAnswerWithoutIDs`,
		old: "(jsonb_typeof(x.e -> 'id') IN ('string', 'number')) IS NOT TRUE", new: "false",
	},
	{
		what: "what failed is an array", file: progressSQL, in: engineTests, run: `TestAnAnswerWithoutIDs`,
		old: "ELSE answer -> 'failed' END;", new: "END;",
	},
	{
		what: "what failed of a whole catalog is taken from the answer", file: progressSQL, in: engineTests, run: `TestWhatFailsOf`,
		old: "IF p_ids IS NULL AND jsonb_typeof", new: "IF false AND jsonb_typeof",
	},
	{
		what: "the list's token", file: progressSQL, in: engineTests, run: `TestOnlyTheHolder`,
		old: "r.status = 'ACTIVE' AND r.lock_token = p_token AND NOT r.listed FOR UPDATE", new: "r.status = 'ACTIVE' AND NOT r.listed FOR UPDATE",
	},
	{
		what: "the list's row lock", file: progressSQL, in: engineTests, run: `TestWhoMeets`,
		old: "AND NOT r.listed FOR UPDATE", new: "AND NOT r.listed",
	},
	{
		what: "a list is written once", file: progressSQL, in: engineTests, run: `TestAListIs`,
		old: "AND NOT r.listed FOR UPDATE", new: "FOR UPDATE",
	},
	{
		what: "a list keeps the ids that the job named", file: progressSQL, in: engineTests, run: `TestAListed`,
		old: "    IF ids = '[]' THEN\n        ids := p_ids;", new: "    IF true THEN\n        ids := p_ids;",
	},
	{
		what: "what was accepted is frozen", file: progressSQL, in: engineTests, run: `TestTheTable`,
		old: "OR (OLD.listed AND (NEW.product_ids", new: "OR (false AND (NEW.product_ids",
	},
	{
		what: "a release's token", file: releaseSQL, in: engineTests, run: `TestOnlyTheHolder|TestARefreshIsTakenOver`,
		old: "x.status = 'ACTIVE' AND x.lock_token = p_token FOR UPDATE", new: "x.status = 'ACTIVE' FOR UPDATE",
	},
	{
		what: "a release's row lock", file: releaseSQL, in: engineTests, run: `TestWhoMeets`,
		old: "x.lock_token = p_token FOR UPDATE;", new: "x.lock_token = p_token;",
	},
	{
		what: "a release locks the tables in the order of all others", file: releaseSQL, in: engineTests, run: `TestAReleaseBeside`,
		old: "    LOCK TABLE jobs, job_additions IN ACCESS SHARE MODE; -- in the order of a migration, or each would wait for the other\n", new: "",
	},
	{
		what: "the dead letter of what failed", file: releaseSQL, in: engineTests, run: `TestOneBad`,
		old: "    IF n > 0 OR p_error IS NOT NULL THEN\n        INSERT", new: "    IF false THEN\n        INSERT",
	},
	{
		what: "a dead letter that is not written keeps the refresh", file: releaseSQL, in: engineTests, run: `TestADeadLetterThat`,
		old: "IF NOT FOUND THEN -- or what failed", new: "IF false THEN -- or what failed",
	},
	{
		what: "what is given up is in the dead letter", file: releaseSQL, in: engineTests, run: `TestAnOutageThat|TestWhatKills`,
		old: "        IF p_error IS NOT NULL THEN\n            SELECT ids ||", new: "        IF false THEN\n            SELECT ids ||",
	},
	{
		what: "what is dealt with is not given up", file: releaseSQL, in: engineTests, run: `TestAnOutageThat`,
		old: "AND p.o > coalesce(p_done, r.done_count)", new: "AND p.o > 0",
	},
	{
		what: "a full refresh that failed is one again", file: releaseSQL, in: engineTests, run: `TestAFullRefreshThatFails`,
		old: "CASE WHEN p_error IS NOT NULL AND NOT r.listed THEN '{\"full\": true}'::jsonb ELSE '{}' END,", new: "'{}'::jsonb,",
	},
	{
		what: "a release wakes who waits", file: releaseSQL, in: engineTests, run: `TestAReleaseWakesTheJob`,
		old: "    PERFORM wake_catalog(r.tenant_id, r.catalog_id);\n", new: "",
	},
	{
		what: "a release says how many were refused", file: releaseSQL, in: engineTests, run: `TestARequeueAfter`,
		old: "    waiters := r.refused;\n", new: "    waiters := 0;\n",
	},
	{
		what: "a waking's SKIP LOCKED", file: releaseSQL, in: engineTests, run: `TestAReleaseTouches`,
		old: "j.type = 'PRICE_REFRESH'\n       FOR UPDATE SKIP LOCKED;", new: "j.type = 'PRICE_REFRESH'\n       FOR UPDATE;",
	},
	{
		what: "a waking's row lock", file: releaseSQL, in: engineTests, run: `TestAReleaseTouches`,
		old: "j.type = 'PRICE_REFRESH'\n       FOR UPDATE SKIP LOCKED;", new: "j.type = 'PRICE_REFRESH';",
	},
	{
		what: "a job that its client delayed is not woken", file: releaseSQL, in: engineTests, run: `TestAReleaseLeaves`,
		old: "OR (w.attempts = 0 AND NOT w.successor)", new: "",
	},
	{
		what: "a job that waits for another refresh is not woken", file: releaseSQL, in: engineTests, run: `TestAReleaseLeaves`,
		old: "AND to_jsonb(r.id) = w.refused_by) THEN", new: "AND false) THEN",
	},
	{
		what: "the waking of a waiting job", file: releaseSQL, in: engineTests, run: `TestAReleaseWakesTheJob`,
		old: "        UPDATE jobs j SET run_after = at, updated_at = at WHERE j.id = w.id;\n        RETURN true;\n", new: "        RETURN true;\n",
	},
	{
		what: "the waking of refused ids that joined a successor", file: releaseSQL, in: engineTests, run: `TestAReleaseWakesASuccessor`,
		old: "UPDATE job_additions a SET run_after = '-infinity'", new: "UPDATE job_additions a SET run_after = a.run_after",
	},
	{
		what: "the successor itself is woken", file: releaseSQL, in: engineTests, run: `TestAReleaseWakesASuccessor`,
		old: "    IF n > 0 AND w.id IS NOT NULL THEN\n        UPDATE", new: "    IF false THEN\n        UPDATE",
	},
	{
		what: "a waking leaves the additions of a reservation alone", file: releaseSQL, in: engineTests, run: `TestAReleaseTouches`,
		old: "               AND (x.marked OR w.id IS NOT NULL)\n", new: "",
	},
	{
		what: "SKIP LOCKED of the additions that are woken", file: releaseSQL, in: engineTests, run: `TestAReleaseWaits`,
		old: "               FOR UPDATE SKIP LOCKED) late", new: "               FOR UPDATE) late",
	},
	{
		what: "the announcement of refused ids that are woken and wait for no job", file: releaseSQL, in: engineTests, run: `TestAReleaseWakesRefused`,
		old: "        PERFORM announce('PRICE_REFRESH', p_tenant, p_catalog, NULL);\n", new: "        NULL;\n",
	},
}
