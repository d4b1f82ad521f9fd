package main

const (
	cancelSQL = "triggers/50_replay_cancel.sql"
	sweepSQL  = "triggers/55_sweep.sql"
)

// byHand is what cancel does, and what makes up for hands that go past the functions.
var byHand = []mutation{
	{
		what: "a cancel's row lock", file: cancelSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "j.id = job_id FOR UPDATE;", new: "j.id = job_id;",
	},
	{
		what: "the successor that a cancel leaves", file: cancelSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "        PERFORM leave_successor(r.tenant_id, r.catalog_id, at + interval '10 ms');\n", new: "        NULL;\n",
	},
	{
		what: "a cancel takes along what has joined", file: cancelSQL, run: `TestACancelTakes`,
		old: "AND (f.taken > 0 OR j.successor)", new: "AND j.successor",
	},
	{
		what: "a cancel locks no ended job", file: cancelSQL, run: `TestARowThat`,
		old: "    IF outcome IS NOT NULL THEN", new: "    IF false THEN",
	},
	{
		what: "the sweep's mark", file: sweepSQL, run: `TestEveryPair.*/an?_.*addition`,
		old: "UPDATE job_additions a SET marked = true", new: "UPDATE job_additions a SET marked = false",
	},
	{
		what: "the sweep tells jobs who has their ids", file: sweepSQL, run: `TestARowThat`,
		old: "    PERFORM settle_merges();\n", new: "",
	},
	{
		what: "one waiting job a catalog", file: "migrations/0001_jobs.sql", run: `TestEveryPair.*/nothing`,
		old: "CREATE UNIQUE INDEX jobs_price_refresh_pending_catalog_uq ON :\"schema\".jobs (tenant_id, catalog_id)", new: "CREATE UNIQUE INDEX jobs_price_refresh_pending_catalog_uq ON :\"schema\".jobs (tenant_id, catalog_id, id)",
	},
	{
		what: "the tenant in that index", file: "migrations/0001_jobs.sql", run: `TestTenantsOf`,
		old: "jobs_price_refresh_pending_catalog_uq ON :\"schema\".jobs (tenant_id, catalog_id)", new: "jobs_price_refresh_pending_catalog_uq ON :\"schema\".jobs (catalog_id)",
	},
	{
		what: "a cancel of what has ended meanwhile", file: cancelSQL, run: `TestACancelThatWaited`,
		old: "    ELSIF r.status NOT IN ('PENDING', 'RUNNING') THEN\n", new: "    ELSIF false THEN\n",
	},
	{
		what: "the sweep looks whether a job waits", file: sweepSQL, run: `TestEveryPair.*/a_job_waits$|TestABounded|TestCatalogs`,
		old: "               AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = x.tenant_id AND j.catalog_id = x.catalog_id\n                                                    AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')\n", new: "",
	},
	{
		what: "the sweep's SKIP LOCKED", file: sweepSQL, run: `TestASweep`,
		old: "LIMIT 10000 FOR UPDATE OF x SKIP LOCKED", new: "LIMIT 10000 FOR UPDATE OF x",
	},
	{
		what: "SKIP LOCKED of who learns of a merge", file: sweepSQL, run: `TestASweep`,
		old: "LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED", new: "LIMIT 1000 FOR NO KEY UPDATE",
	},
	{
		what: "what is written down for a job that is gone goes too", file: sweepSQL, run: `TestASweep|TestB15`,
		old: "       AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = a.from_job_id); -- purged meanwhile", new: "       AND false;",
	},
	{
		what: "a replay says what it has not done", file: cancelSQL, run: `TestEveryPair.*/nothing|TestB04Dead|TestReplay`,
		old: "    IF outcome = 'lost' THEN\n        outcome := CASE WHEN EXISTS (SELECT FROM jobs j WHERE j.id = job_id) THEN 'not_failed' ELSE 'not_found' END;", new: "    IF outcome = 'lost' THEN\n        outcome := 'not_found';",
	},
}
