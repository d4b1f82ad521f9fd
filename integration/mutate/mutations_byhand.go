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
}
