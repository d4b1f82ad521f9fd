package main

const (
	admitSQL    = "triggers/60_engine_admit.sql"
	articlesSQL = "triggers/60_engine_articles.sql"
	leasesSQL   = "triggers/60_engine_leases.sql"

	engineTests = "./internal/engine/"
)

// admitting is what keeps two refreshes of one product apart, and a refresh with one process.
var admitting = []mutation{
	{
		what: "an admission's token", file: admitSQL, in: engineTests, run: `TestAnAdmissionIsFor`, all: true,
		old: "k.status = 'RUNNING' AND k.lock_token = p_token", new: "k.status = 'RUNNING'",
	},
	{
		what: "RUNNING, for an admission", file: admitSQL, in: engineTests, run: `TestALostJob|TestAnAccepted`, all: true,
		old: "k.status = 'RUNNING' AND k.lock_token = p_token", new: "true",
	},
	{
		what: "an admission's lock of the job's row", file: admitSQL, in: engineTests, run: `TestAnAdmissionHolds`,
		old: "       FOR UPDATE SKIP LOCKED;", new: "       ;",
	},
	{
		what: "an admission's SKIP LOCKED", file: admitSQL, in: engineTests, run: `TestAnAdmissionIsFor`,
		old: "       FOR UPDATE SKIP LOCKED;", new: "       FOR UPDATE;",
	},
	{
		what: "an admission's READ COMMITTED", file: admitSQL, in: engineTests, run: `TestAnAdmissionIsFor`,
		old: "IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN\n        RAISE", new: "IF false THEN\n        RAISE",
	},
	{
		what: "the admission lock", file: admitSQL, in: engineTests, run: `TestConcurrentSubmits|TestTwoAdmissions`,
		old: "locked := pg_try_advisory_xact_lock(1853292548, stripe);", new: "locked := true;",
	},
	{
		what: "the exclusive side of that lock", file: admitSQL, in: engineTests, run: `TestConcurrentSubmits|TestTwoAdmissions`,
		old: "locked := pg_try_advisory_xact_lock(1853292548, stripe);", new: "locked := pg_try_advisory_xact_lock_shared(1853292548, stripe);",
	},
	{
		what: "the look under the admission lock", file: admitSQL, in: engineTests, run: `TestConcurrentSubmits|TestTwoAdmissions`,
		old: "                locked := true;\n                CONTINUE;\n", new: "                EXIT admission;\n",
	},
	{
		what: "a refusal needs no admission lock", file: admitSQL, in: engineTests, run: `TestTwoAdmissions|TestARefusal`,
		old: "locked := pg_try_advisory_xact_lock(1853292548, stripe);", new: "PERFORM pg_advisory_xact_lock(1853292548, stripe); locked := true;",
	},
	{
		what: "a refusal is counted where the release reads it", file: admitSQL, in: engineTests, run: `TestTheFourRefusals|TestARequeueAfter`,
		old: "SET refused = r.refused + 1", new: "SET refused = r.refused",
	},
	{
		what: "a refusal that meets the release looks again", file: admitSQL, in: engineTests, run: `TestARefusalThatMeets`,
		old: "WHERE r.id = refresh_id AND r.status = 'ACTIVE';\n                EXIT admission WHEN FOUND;", new: "WHERE r.id = refresh_id;\n                EXIT admission WHEN FOUND;",
	},
	{
		what: "a refusal lets go of the row that it waited for", file: admitSQL, in: engineTests, run: `TestTwoRefusals`,
		old: "                RAISE EXCEPTION 'refresh % is gone', refresh_id USING ERRCODE = 'NW410';\n", new: "                NULL;\n",
	},
	{
		what: "a refusal waits for a person's lock for a moment only", file: admitSQL, in: engineTests, run: `TestALockedRefreshRow|TestARefusalDoes`,
		old: "                PERFORM set_config('lock_timeout', '250ms', true);\n", new: "",
	},
	{
		what: "the job's end, in the commit of the admission", file: admitSQL, in: engineTests, run: `TestAcceptance|TestAnAccepted`,
		old: "    UPDATE :\"schema\".jobs k\n       SET status = 'COMPLETED'", new: "    IF outcome = 'accepted' THEN RETURN; END IF;\n    UPDATE :\"schema\".jobs k\n       SET status = 'COMPLETED'",
	},
	{
		what: "a full refresh excludes others", file: articlesSQL, in: engineTests, run: `TestTheFourRefusals`,
		old: "AND (p_full OR r.scope = 'FULL')", new: "AND p_full",
	},
	{
		what: "others exclude a full refresh", file: articlesSQL, in: engineTests, run: `TestTheFourRefusals`,
		old: "AND (p_full OR r.scope = 'FULL')", new: "AND r.scope = 'FULL'",
	},
	{
		what: "refreshes exclude each other by articles", file: articlesSQL, in: engineTests, run: `TestTheFourRefusals|TestVariants`,
		old: "IF NOT FOUND AND NOT p_full THEN", new: "IF false THEN",
	},
	{
		what: "only active refreshes exclude", file: articlesSQL, in: engineTests, run: `TestARequeueAfter|TestARefusalThatMeets|TestConcurrent`,
		old: "p_catalog AND r.status = 'ACTIVE') busy", new: "p_catalog) busy",
	},
	{
		what: "catalogs are apart", file: articlesSQL, in: engineTests, run: `TestTheFourRefusals`,
		old: "r.catalog_id = p_catalog AND r.status = 'ACTIVE') busy", new: "r.status = 'ACTIVE') busy",
	},
	{
		what: "tenants are apart", file: articlesSQL, in: engineTests, run: `TestTenants`, all: true,
		old: "r.tenant_id = p_tenant AND ", new: "",
	},
	{
		what: "a refresh's heartbeat's token", file: leasesSQL, in: engineTests, run: `TestALostRefresh|TestOnlyTheHolder`,
		old: "held.id = r.id AND held.token = r.lock_token", new: "held.id = r.id",
	},
	{
		what: "a heartbeat says what is lost", file: leasesSQL, in: engineTests, run: `TestALostRefresh`,
		old: "r.status = 'ACTIVE' AND r.lock_token = held.token);", new: "true);",
	},
	{
		what: "a heartbeat says what it has extended", file: leasesSQL, in: engineTests, run: `TestALeaseThat`,
		old: "(SELECT array_agg(moved.id) FROM moved)", new: "p_ids",
	},
	{
		what: "a refresh's heartbeat's SKIP LOCKED", file: leasesSQL, in: engineTests, run: `TestAHeartbeat`,
		old: "FOR UPDATE OF r SKIP LOCKED\n    ), moved", new: "FOR UPDATE OF r\n    ), moved",
	},
	{
		what: "the end of the lease, for a takeover", file: leasesSQL, in: engineTests, run: `TestARefreshIsTakenOver|TestATakeover`,
		old: " AND r.lease_expires_at <= at", new: "",
	},
	{
		what: "a takeover goes back as far as it is told to", file: leasesSQL, in: queueTests, run: `TestNobodyReadsAll`,
		old: " AND r.lease_expires_at >= since", new: "",
	},
	{
		what: "a takeover's SKIP LOCKED", file: leasesSQL, in: engineTests, run: `TestATakeover`,
		old: "LIMIT p_limit FOR UPDATE SKIP LOCKED", new: "LIMIT p_limit FOR UPDATE",
	},
	{
		what: "a takeover's row lock", file: leasesSQL, in: engineTests, run: `TestATakeover`,
		old: "LIMIT p_limit FOR UPDATE SKIP LOCKED", new: "LIMIT p_limit",
	},
	{
		what: "a takeover's LIMIT", file: leasesSQL, in: engineTests, run: `TestATakeover|TestAFullEngine`,
		old: "LIMIT p_limit FOR UPDATE SKIP LOCKED", new: "FOR UPDATE SKIP LOCKED",
	},
	{
		what: "a new token for a takeover", file: leasesSQL, in: engineTests, run: `TestARefreshIsTakenOver|TestALostChunk`,
		old: "SET lock_token = gen_random_uuid(), worker_id = p_worker", new: "SET worker_id = p_worker",
	},
	{
		what: "a takeover alone counts for nothing", file: leasesSQL, in: engineTests, run: `TestWhatWaits`,
		old: "interval '1 ms'\n          FROM expired", new: "interval '1 ms', attempts = r.attempts + 1\n          FROM expired",
	},
	{
		what: "the run of what was taken over counts", file: leasesSQL, in: engineTests, run: `TestARunThat|TestWhatKills`,
		old: "SET attempts = p_attempts, updated_at", new: "SET updated_at",
	},
	{
		what: "a beginning's token", file: leasesSQL, in: engineTests, run: `TestOnlyTheHolder`,
		old: "r.status = 'ACTIVE' AND r.lock_token = p_token;\n    RETURN FOUND;", new: "r.status = 'ACTIVE';\n    RETURN FOUND;",
	},
	{
		what: "a run that is handed back counts for nothing", file: leasesSQL, in: engineTests, run: `TestARunThat`,
		old: "greatest(r.attempts - (r.id = ANY (p_begun))::integer, 0)", new: "r.attempts",
	},
	{
		what: "only a run that was counted is taken off the count", file: leasesSQL, in: engineTests, run: `TestARunThat`,
		old: "(r.id = ANY (p_begun))::integer", new: "1",
	},
	{
		what: "a handing back's token", file: leasesSQL, in: engineTests, run: `TestOnlyTheHolder`,
		old: "ON h.id = r.id AND h.token = r.lock_token", new: "ON h.id = r.id",
	},
	{
		what: "a handing back's SKIP LOCKED", file: leasesSQL, in: engineTests, run: `TestALockedRowKeeps`,
		old: "FOR UPDATE OF r SKIP LOCKED\n    )\n    UPDATE", new: "FOR UPDATE OF r\n    )\n    UPDATE",
	},
	{
		what: "who handed back is fenced off", file: leasesSQL, in: engineTests, run: `TestOnlyTheHolder|TestAShutdown`,
		old: "UPDATE refreshes r SET lock_token = gen_random_uuid(), lease_expires_at = at", new: "UPDATE refreshes r SET lease_expires_at = at",
	},
	{
		what: "a handing back tells the workers", file: leasesSQL, in: engineTests, run: `TestAShutdown`,
		old: "        PERFORM pg_notify(channel(), '{}');\n", new: "        NULL;\n",
	},
}
