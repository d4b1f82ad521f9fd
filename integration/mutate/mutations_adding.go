package main

const (
	enqueueSQL = "triggers/30_enqueue.sql"
	guardSQL   = "triggers/20_guard.sql"
)

// adding is what an enqueue and a plain INSERT do.
var adding = []mutation{
	{
		what: "an enqueue's shared lock on the catalog", file: enqueueSQL, run: `TestEveryPair.*/a_(job|successor)_waits$`,
		old: "        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);\n    END IF;\n", new: "        NULL;\n    END IF;\n",
	},
	{
		what: "lock first, look second", file: enqueueSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: `        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);
    END IF;
    WHILE NOT mark LOOP
        SELECT j.id INTO job_id FROM jobs j
         WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH';
        IF FOUND THEN`,
		new: `    END IF;
    WHILE NOT mark LOOP
        SELECT j.id INTO job_id FROM jobs j
         WHERE j.tenant_id = p_tenant AND j.catalog_id = p_catalog AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH';
        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);
        IF job_id IS NOT NULL THEN`,
	},
	{
		what: "the lock \"creating\" of a first enqueue", file: enqueueSQL, run: `TestTriples.*/two_first_enqueues|TestEveryPair.*/nothing`,
		old: "first := pg_try_advisory_xact_lock(1853292546, stripe)\n                     AND", new: "first := true AND",
	},
	{
		what: "the second look of a first enqueue", file: enqueueSQL, run: `TestAnEnqueueLooksAgain`,
		old: "            CONTINUE; -- look again, or go on to append\n", new: "            CONTINUE WHEN mark;\n",
	},
	{
		what: "no look at an old snapshot", file: enqueueSQL, run: `TestEveryPairAtHigher.*/REPEATABLE_READ,_a_job`,
		old: "mark   boolean := current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted');", new: "mark   boolean := false;",
	},
	{
		what: "an enqueue that met a plain INSERT looks again", file: enqueueSQL, run: `TestAnEnqueueThatMeets`,
		old: " ON CONFLICT (tenant_id, catalog_id) WHERE status = 'PENDING' AND type = 'PRICE_REFRESH' DO NOTHING", new: "",
	},
	{
		what: "and not for ever", file: enqueueSQL, run: `TestAnEnqueueThatATrigger`,
		old: "IF vain = 10 THEN", new: "IF false THEN",
	},
	{
		what: "several catalogs are never asked for as a whole", file: enqueueSQL, run: `TestBadInput`,
		old: "IF r.e -> 'full' NOT IN ('false', 'null') THEN", new: "IF false THEN",
	},
	{
		what: "a delay ends within 10 years of the calendar", file: enqueueSQL, run: `TestBadInput`,
		old: " OR now() + delay > now() + interval '10 years' THEN", new: " THEN",
	},
	{
		what: "the mark of an addition without a job", file: enqueueSQL, run: `TestTriples.*/two_first_enqueues`,
		old: "p_full, mark, p_from", new: "p_full, false, p_from",
	},
	{
		what: "the job id of a marked addition", file: enqueueSQL, run: `TestTriples.*/two_first_enqueues`,
		old: "            job_id := nextval(pg_get_serial_sequence(format('%I.jobs', :'schema'), 'id'));\n", new: "            NULL;\n",
	},
	{
		what: "the tenant's existence, for a marked addition", file: enqueueSQL, run: `TestAMarkedAdditionOfATenant`,
		old: "IF NOT EXISTS (SELECT FROM tenants t WHERE t.id = p_tenant) THEN", new: "IF false THEN",
	},
	{
		what: "a plain INSERT's shared lock", file: guardSQL, run: `TestEveryPair.*/nothing`,
		old: "        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);\n", new: "",
	},
	{
		what: "a plain INSERT's \"creating\"", file: guardSQL, run: `TestEveryPair.*/nothing`,
		old: "IF NOT pg_try_advisory_xact_lock(1853292546, stripe) THEN", new: "IF false THEN",
	},
	{
		what: "who has waited for a plain INSERT asks again who is beside", file: "triggers/30_enqueue.sql", in: "./integration/", run: `TestAnEnqueueThatHasWaited`,
		old: "        first := false; -- and ask", new: "        -- and ask",
	},
	{
		what: "\"beside\" of a plain INSERT that could not get it", file: guardSQL, run: `TestTriples.*/.*raw|TestAPlainInsertThat`,
		old: "            PERFORM pg_advisory_xact_lock_shared(1853292552, stripe);\n", new: "            NULL;\n",
	},
	{
		what: "an enqueue asks who is beside it", file: enqueueSQL, run: `TestTriples.*/.*raw|TestAPlainInsertThat`,
		old: "\n                     AND pg_try_advisory_lock(1853292552, stripe) AND pg_advisory_unlock(1853292552, stripe);", new: ";",
	},
	{
		what: "and lets go of the lock by which it asks", file: enqueueSQL, run: `TestAPlainInsertThat|TestAnEnqueueThatMeets`,
		old: " AND pg_advisory_unlock(1853292552, stripe);", new: ";",
	},
	{
		what: "the guard of plain INSERTs", file: guardSQL, run: `TestEveryPair.*/nothing`,
		old: "FOR EACH ROW WHEN (NEW.type = 'PRICE_REFRESH')\n    EXECUTE FUNCTION :\"schema\".guard_price_refresh();",
		new: "FOR EACH ROW WHEN (false)\n    EXECUTE FUNCTION :\"schema\".guard_price_refresh();",
	},
	{
		what: "the guard of plain UPDATEs to PENDING", file: guardSQL, run: `TestEveryPair.*/nothing`,
		old: "FOR EACH ROW WHEN (NEW.status = 'PENDING')\n    EXECUTE FUNCTION :\"schema\".guard_price_refresh();",
		new: "FOR EACH ROW WHEN (false)\n    EXECUTE FUNCTION :\"schema\".guard_price_refresh();",
	},
	{
		what: "a successor's INSERT takes no lock", file: guardSQL, run: `TestManyCatalogs|TestEveryPair.*/a_job_waits$|TestB14`,
		old: "        IF NEW.successor THEN\n", new: "        IF false THEN\n",
	},
	{
		what: "the ids over the first 10,000", file: enqueueSQL, run: `TestALongList`,
		old: "        IF n > chunk THEN\n            PERFORM check_product_ids(p_ids);", new: "        IF false THEN\n            PERFORM check_product_ids(p_ids);",
	},
	{
		what: "an addition asks for the whole catalog", file: enqueueSQL, run: `TestAFullRefreshThatJoins`,
		old: "c.ids, p_full, mark, p_from", new: "c.ids, false, mark, p_from",
	},
	{
		what: "the ids over the first 10,000 are looked at", file: enqueueSQL, run: `TestBadInput`,
		old: "            PERFORM check_product_ids(p_ids); -- the job's", new: "            -- the job's",
	},
	{
		what: "the ids of an addition are looked at", file: enqueueSQL, run: `TestBadInput`,
		old: "    PERFORM check_product_ids(p_ids);\n    IF mark", new: "    IF mark",
	},
}
