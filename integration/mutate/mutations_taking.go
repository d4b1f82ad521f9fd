package main

const (
	reserveSQL = "triggers/41_reserve.sql"
	refreshSQL = "triggers/43_reserve_refresh.sql"
	markedSQL  = "triggers/44_reserve_marked.sql"
	foldSQL    = "triggers/40_fold.sql"
)

// taking is what a reservation does.
var taking = []mutation{
	{
		what: "reserve's SKIP LOCKED", file: reserveSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "LIMIT p_limit - taken FOR UPDATE SKIP LOCKED);", new: "LIMIT p_limit - taken FOR UPDATE);",
	},
	{
		what: "reserve's LIMIT", file: reserveSQL, run: `TestB39`,
		old: "ORDER BY j.run_after, j.id LIMIT p_limit - taken FOR", new: "ORDER BY j.run_after, j.id FOR",
	},
	{
		what: "reserve's READ COMMITTED", file: reserveSQL, run: `TestB43`,
		old: "IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN\n        RAISE", new: "IF false THEN\n        RAISE",
	},
	{
		what: "a job is not taken as it is while somebody is adding", file: reserveSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "IF pg_try_advisory_xact_lock(1853292545, catalog_stripe(p_tenant, p_catalog)) THEN\n        IF is_whole", new: "IF true THEN\n        IF is_whole",
	},
	{
		what: "the exclusive side of the lock of a job that is taken as it is", file: reserveSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "IF pg_try_advisory_xact_lock(1853292545, catalog_stripe(p_tenant, p_catalog)) THEN\n        IF is_whole", new: "IF pg_try_advisory_xact_lock_shared(1853292545, catalog_stripe(p_tenant, p_catalog)) THEN\n        IF is_whole",
	},
	{
		what: "a job that others have joined is not taken as it is", file: handSQL, in: queueTests, run: `TestWhatIsNot`,
		old: " OR EXISTS (SELECT FROM job_additions a WHERE a.tenant_id = p_tenant AND a.catalog_id = p_catalog) THEN", new: " THEN",
	},
	{
		what: "a job with an id twice is not taken as it is", file: handSQL, in: queueTests, run: `TestWhatIsNot`,
		old: "p_count <= 1 OR p_count = (SELECT count(DISTINCT x.e) FROM jsonb_array_elements(p_config -> 'productIds') x(e));", new: "true;",
	},
	{
		what: "a job with more ids than a worker takes is not taken as it is", file: handSQL, in: queueTests, run: `TestWhatIsNot`,
		old: "p_successor OR p_count > p_max_ids OR", new: "p_successor OR",
	},
	{
		what: "a successor is not taken as it is", file: handSQL, in: queueTests, run: `TestASuccessorIsNever`,
		old: "p_successor OR p_count > p_max_ids OR", new: "p_count > p_max_ids OR",
	},
	{
		what: "a brief look that can't have all is a whole one", file: reserveSQL, in: queueTests, run: `TestABriefLookThatCannot`,
		old: "OR taken > 0 AND coalesce(current_setting('notifyworker.joined', true), '') = ''", new: "OR taken > 0",
	},
	{
		what: "and says which it can't have", file: reserveSQL, in: queueTests, run: `TestABriefLookThatCannot`,
		old: "    PERFORM set_config('notifyworker.joined', 'true', true);\n", new: "",
	},
	{
		what: "a brief look's SKIP LOCKED", file: reserveSQL, in: queueTests, run: `TestABriefLookMay`,
		old: "ORDER BY d.run_after, d.id LIMIT p_limit FOR UPDATE SKIP LOCKED))", new: "ORDER BY d.run_after, d.id LIMIT p_limit FOR UPDATE))",
	},
	{
		what: "a brief look's LIMIT", file: reserveSQL, in: queueTests, run: `TestABriefLookSays`,
		old: "ORDER BY d.run_after, d.id LIMIT p_limit FOR", new: "ORDER BY d.run_after, d.id FOR",
	},
	{
		what: "a brief look takes nothing before it is due", file: reserveSQL, in: queueTests, run: `TestABriefLookSays`,
		old: " AND d.run_after <= at\n", new: "\n",
	},
	{
		what: "a brief look starts where it is told to", file: reserveSQL, in: queueTests, run: `TestABriefLookStarts`,
		old: "AND d.run_after >= p_from AND d.run_after <= at", new: "AND d.run_after <= at",
	},
	{
		what: "only a price refresh is folded", file: reserveSQL, run: `TestARowThat`,
		old: " AND j.type = 'PRICE_REFRESH' ORDER BY j.run_after", new: " ORDER BY j.run_after",
	},
	{
		what: "additions are not taken for a job that stays as it is", file: refreshSQL, run: `TestARowThat`,
		old: "IF NOT FOUND THEN -- or its additions would be gone", new: "IF false THEN",
	},
	{
		what: "the question whether anybody is adding", file: refreshSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "quiet := pg_try_advisory_xact_lock(1853292545, catalog_stripe(r.tenant_id, r.catalog_id));", new: "quiet := true;",
	},
	{
		what: "the exclusive side of that lock", file: refreshSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "quiet := pg_try_advisory_xact_lock(1853292545,", new: "quiet := pg_try_advisory_xact_lock_shared(1853292545,",
	},
	{
		what: "the successor", file: refreshSQL, run: `TestEveryPair.*/a_job_waits$`,
		old: "IF f.more OR left_behind OR NOT quiet THEN", new: "IF f.more OR left_behind THEN",
	},
	{
		what: "the successor for ids over the bound", file: refreshSQL, run: `FuzzFold|TestFoldAgrees`,
		old: "IF f.more OR left_behind OR NOT quiet THEN", new: "IF NOT quiet THEN",
	},
	{
		what: "the successor for additions that somebody has locked", file: refreshSQL, run: `TestAnAdditionThat|TestMoreEmpty`,
		old: "IF f.more OR left_behind OR NOT quiet THEN", new: "IF f.more OR NOT quiet THEN",
	},
	{
		what: "a successor stays while somebody is adding", file: refreshSQL, run: `TestEveryPair.*/a_successor_waits$|TestTriples.*/.*successor`,
		old: "IF w.n = 0 AND quiet THEN", new: "IF w.n = 0 THEN",
	},
	{
		what: "a successor goes when nobody is", file: refreshSQL, run: `TestASuccessorThatNobody`,
		old: "            DELETE FROM jobs j WHERE j.id = p_id;\n            RETURN false;\n", new: "            RETURN false;\n",
	},
	{
		what: "a successor with nothing to take is put off", file: refreshSQL, run: `TestAnAdditionThat`,
		old: "IF r.successor AND f.taken = 0 THEN", new: "IF false THEN",
	},
	{
		what: "jobs of marked additions", file: reserveSQL, run: `TestTriples.*/two_first_enqueues`,
		old: "< p_limit AND EXISTS (SELECT FROM job_additions a WHERE a.marked) THEN\n", new: "< p_limit AND false THEN\n",
	},
	{
		what: "a marked addition has its turn where looks find jobs enough", file: reserveSQL, in: queueTests, run: `TestAMarkedAdditionHas`,
		old: "IF marked_waits_longer(due[cardinality(due)]) THEN", new: "IF false THEN",
	},
	{
		what: "and not before its turn", file: markedSQL, in: queueTests, run: `TestAMarkedAdditionHas`,
		old: "j.id = p_job AND j.run_after > since", new: "j.id = p_job",
	},
	{
		what: "nor in that of a job when it has none itself", file: markedSQL, in: queueTests, run: `TestAMarkedAdditionThatWaitsForAJob`,
		old: "     WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id\n                                            AND", new: "     WHERE NOT EXISTS (SELECT FROM jobs j WHERE false AND j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id\n                                            AND",
	},
	{
		what: "in the place of a job", file: reserveSQL, in: queueTests, run: `TestAMarkedAdditionHas`,
		old: "due := trim_array(due, cardinality(folded));", new: "",
	},
	{
		what: "one that waits for a job is that job's", file: markedSQL, run: `TestMarkedAdditionsThatHaveToWait`,
		old: "UPDATE job_additions x SET marked = false", new: "UPDATE job_additions x SET marked = true",
	},
	{
		what: "under the catalog's lock", file: markedSQL, run: `TestMarkedAdditionsStayMarked`,
		old: "ELSIF pg_try_advisory_xact_lock(1853292545, catalog_stripe(r.tenant_id, r.catalog_id)) THEN", new: "ELSIF true THEN",
	},
	{
		what: "one of a tenant that is gone stands in no other's way", file: markedSQL, run: `TestMarkedAdditionsThatHaveToWait|TestMarkedAdditionsOfATenant`,
		old: "PERFORM put_off_marked(r.tenant_id, r.catalog_id, 1000);", new: "NULL;",
	},
	{
		what: "nor one that can't be reserved", file: markedSQL, run: `TestMarkedAdditionsThatCannot`,
		old: "PERFORM put_off_marked(r.tenant_id, r.catalog_id, NULL);", new: "",
	},
	{
		what: "a look goes on behind jobs that can't be reserved", file: reserveSQL, run: `TestJobsThatCannot`,
		old: "EXIT WHEN due = '{}' OR", new: "EXIT WHEN true OR",
	},
	{
		what: "and puts them off", file: reserveSQL, run: `TestThousandsOfJobs`,
		old: "PERFORM put_off(r.id);", new: "",
	},
	{
		what: "also those that a trigger passes over", file: reserveSQL, run: `TestJobsThatCannot`,
		old: "IF enough AND EXISTS (SELECT FROM jobs j", new: "IF false AND EXISTS (SELECT FROM jobs j",
	},
	{
		what: "a made-up job id is no job's", file: foldSQL, run: `TestJobIDsMadeUp`,
		old: "        ON CONFLICT (id) DO NOTHING\n    )\n", new: "    )\n",
	},
	{
		what: "nor one's to come", file: foldSQL, run: `TestJobIDsMadeUp`,
		old: "RETURN p_id BETWEEN 1 AND (", new: "RETURN true OR p_id BETWEEN 1 AND (",
	},
	{
		what: "nor one's that exists", file: markedSQL, run: `TestAdditionsByHand`,
		old: "OR EXISTS (SELECT FROM jobs j WHERE j.id = a.job_id) THEN", new: "THEN",
	},
	{
		what: "SKIP LOCKED of marked additions", file: markedSQL, run: `TestTriples.*/an_enqueuer_at_REPEATABLE_READ_and_two`,
		old: "LIMIT p_limit FOR UPDATE OF a SKIP LOCKED", new: "LIMIT p_limit FOR UPDATE OF a",
	},
	{
		what: "a told job id is used once", file: markedSQL, run: `TestABounded`,
		old: "     ORDER BY x.id LIMIT 1 FOR UPDATE SKIP LOCKED;", new: "     ORDER BY x.job_id NULLS LAST, x.id LIMIT 1 FOR UPDATE SKIP LOCKED;",
	},
	{
		what: "fold's SKIP LOCKED", file: foldSQL, run: `TestAnAdditionThat`,
		old: "::bigint + 1 FOR UPDATE SKIP LOCKED) l;", new: "::bigint + 1 FOR UPDATE) l;",
	},
	{
		what: "fold removes what it takes", file: foldSQL, run: `TestFoldAgrees`,
		old: "a.ctid = ANY ((SELECT mine)::tid[])\n        RETURNING", new: "a.ctid = ANY ((SELECT mine)::tid[]) AND a.id % 2 = 0\n        RETURNING",
	},
	{
		what: "fold removes what it takes of plain additions", file: foldSQL, run: `TestFoldAgrees`,
		old: "a.ctid = ANY ((SELECT mine)::tid[]);", new: "a.ctid = ANY ((SELECT mine)::tid[]) AND a.id % 2 = 0;",
	},
	{
		what: "an addition that a trigger keeps is not taken", file: foldSQL, run: `TestAnAdditionThatATriggerKeeps`,
		old: "IF went < taken THEN", new: "IF false THEN",
	},
	{
		what: "an addition of several ids is not a plain one", file: foldSQL, run: `TestFoldAgrees|TestAJobTakes`,
		old: "jsonb_array_length(a.product_ids) = 1 AND pg_column_size", new: "jsonb_array_length(a.product_ids) > 0 AND pg_column_size",
	},
	{
		what: "an addition of a requeued job is not a plain one", file: foldSQL, run: `TestRefusedIDs|TestTriples`,
		old: "AND NOT a.full_refresh AND a.from_job_id IS NULL AND", new: "AND NOT a.full_refresh AND",
	},
	{
		what: "an addition whose caller was told a job id is not a plain one", file: foldSQL, run: `TestTriples.*/two_first_enqueues|TestTriples.*/two_enqueuers_at_REP`,
		old: "AND a.from_job_id IS NULL AND a.job_id IS NULL AS plain", new: "AND a.from_job_id IS NULL AS plain",
	},
	{
		what: "plain additions over the bound are left", file: foldSQL, in: queueTests, run: `TestReservationTakes`,
		old: "IF cardinality(each) = taken AND NOT more THEN", new: "IF cardinality(each) >= taken THEN",
	},
	{
		what: "a full job takes nothing from what it leaves", file: foldSQL, run: `TestAJobThatIsFull`,
		old: "        operated_by := NULL; -- what was read of additions that are not taken\n        trace_id := NULL;\n", new: "",
	},
	{
		what: "who asked, of plain additions", file: foldSQL, run: `TestAJobTakes`,
		old: "(array_agg(l.operated_by) FILTER (WHERE l.operated_by IS NOT NULL))[1]", new: "NULL",
	},
	{
		what: "the first trace of plain additions", file: foldSQL, run: `TestAJobTakes`,
		old: "(array_agg(l.trace_id) FILTER (WHERE l.trace_id IS NOT NULL))[1]", new: "max(l.trace_id)",
	},
	{
		what: "an addition that asks for the whole catalog is not a plain one", file: foldSQL, run: `TestAJobTakesTheWish`,
		old: "AND NOT a.full_refresh AND", new: "AND",
	},
	{
		what: "fold's order of arrival", file: foldSQL, run: `TestFoldAgrees|TestIDsKeep`,
		old: "FROM once o ORDER BY o.place)", new: "FROM once o ORDER BY o.e)",
	},
	{
		what: "the order of arrival of plain additions", file: foldSQL, run: `TestFoldAgrees|TestIDsKeep`,
		old: "GROUP BY x.e ORDER BY min(x.o)));", new: "GROUP BY x.e ORDER BY x.e));",
	},
	{
		what: "each id once", file: foldSQL, run: `TestFoldAgrees|TestIDsKeep`,
		old: "SELECT a.e, min(a.place) AS place FROM asked a GROUP BY a.e", new: "SELECT a.e, a.place FROM asked a",
	},
	{
		what: "each id once, of plain additions", file: foldSQL, run: `TestAJobTakesFrom`,
		old: "GROUP BY x.e ORDER BY min(x.o)));", new: "ORDER BY x.o));",
	},
	{
		what: "an empty array for no ids", file: foldSQL, run: `TestEmptyArrays`,
		old: "to_jsonb(ARRAY(SELECT o.e FROM once o ORDER BY o.place))", new: "(SELECT jsonb_agg(o.e ORDER BY o.place) FROM once o)",
	},
	{
		what: "the row of a job id that a caller was told", file: foldSQL, run: `TestTriples.*/two_first_enqueues|TestTriples.*/two_enqueuers_at_REP`,
		old: "WHERE g.job_id <> p_job AND was_given(g.job_id)", new: "WHERE false",
	},
	{
		what: "mergedIntoJobId is corrected by who takes the ids", file: foldSQL, run: `TestTriples`,
		old: "    IF froms IS NOT NULL THEN\n        free :=", new: "    IF false THEN\n        free :=",
	},
	{
		what: "SKIP LOCKED of the jobs that learn it", file: foldSQL, run: `TestARowThat`,
		old: "FOR NO KEY UPDATE SKIP LOCKED", new: "FOR NO KEY UPDATE",
	},
	{
		what: "what a locked job has to learn later", file: foldSQL, run: `TestARowThat`,
		old: "FROM unnest(froms) x(id) WHERE x.id <> ALL (free)", new: "FROM unnest(froms) x(id) WHERE false",
	},
	{
		what: "refused ids in a successor keep their back-off", file: refreshSQL, run: `TestRefusedIDs`,
		old: "ELSIF w.all_requeued AND w.due > at THEN", new: "ELSIF false THEN",
	},
	{
		what: "marked additions of a catalog with a waiting job are that job's", file: markedSQL, run: `TestTriples.*/two_enqueuers_at_REP|TestMarkedAdditions`,
		old: "                AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = a.tenant_id AND j.catalog_id = a.catalog_id\n                                                     AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')\n", new: "",
	},
	{
		what: "a marked addition is not taken before it is due", file: markedSQL, run: `TestMarkedAdditions`,
		old: "WHERE a.marked AND a.run_after <= clock_timestamp()\n", new: "WHERE a.marked\n",
	},
	{
		what: "marked additions over the bound stay marked", file: markedSQL, run: `TestABounded|FuzzFold|TestFoldAgrees`,
		old: "    IF f.more THEN\n        -- Ids", new: "    IF false THEN\n        -- Ids",
	},
	{
		what: "a look tells when a marked addition is due", file: reserveSQL, run: `TestMarkedAdditions`,
		old: "    IF EXISTS (SELECT FROM job_additions a WHERE a.marked) THEN\n        SELECT least", new: "    IF false THEN\n        SELECT least",
	},
	{
		what: "each id once, without additions", file: foldSQL, run: `TestFoldAgrees|TestIDsKeep|FuzzFold`,
		old: "CASE WHEN count(*) = own THEN p_own ELSE coalesce(jsonb_agg(u.e ORDER BY u.o), '[]') END", new: "p_own",
	},
	{
		what: "ids over the bound are put back", file: foldSQL, in: queueTests, run: `TestReservationTakes`,
		old: "    IF jsonb_array_length(ids) > p_max_ids THEN\n        more := true;", new: "    IF false THEN\n        more := true;",
	},
	{
		what: "they come first again", file: foldSQL, in: queueTests, run: `TestReservationTakes`,
		old: "SELECT -nextval(pg_get_serial_sequence(format('%I.job_additions'", new: "SELECT nextval(pg_get_serial_sequence(format('%I.job_additions'",
	},
	{
		what: "in order", file: foldSQL, in: queueTests, run: `TestReservationTakes|TestWhatIsPutBack`,
		old: "GROUP BY 1 ORDER BY 1 DESC OFFSET 0) c", new: "GROUP BY 1 ORDER BY 1 OFFSET 0) c",
	},
	{
		what: "who asked, of the ids over the first 10,000", file: enqueueSQL, run: `TestWhatGoesToASuccessor`,
		old: "jsonb_agg(x.e ORDER BY x.o), p_operated_by, p_trace_id, p_attempts, p_max_attempts, p_run_after", new: "jsonb_agg(x.e ORDER BY x.o), NULL, NULL, p_attempts, p_max_attempts, p_run_after",
	},
	{
		what: "their attempts", file: enqueueSQL, run: `TestWhatGoesToASuccessor`,
		old: "jsonb_agg(x.e ORDER BY x.o), p_operated_by, p_trace_id, p_attempts, p_max_attempts", new: "jsonb_agg(x.e ORDER BY x.o), p_operated_by, p_trace_id, 0, p_max_attempts",
	},
	{
		what: "their attempt limit", file: enqueueSQL, run: `TestWhatGoesToASuccessor`,
		old: "jsonb_agg(x.e ORDER BY x.o), p_operated_by, p_trace_id, p_attempts, p_max_attempts", new: "jsonb_agg(x.e ORDER BY x.o), p_operated_by, p_trace_id, p_attempts, 100",
	},
	{
		what: "an addition that has attempts is not a plain one", file: foldSQL, run: `TestWhatGoesToASuccessor`,
		old: " AND a.attempts = 0\n", new: "\n",
	},
	{
		what: "what is put back has attempts, of nobody's job", file: foldSQL, run: `TestWhatGoesToASuccessor`,
		old: "g.from_job_id IS NOT NULL OR g.attempts > 0", new: "g.from_job_id IS NOT NULL",
	},
	{
		what: "who asked, of what is put back", file: foldSQL, run: `TestWhatGoesToASuccessor`,
		old: "coalesce(fold.operated_by, j.operated_by), coalesce(fold.trace_id, j.trace_id)", new: "j.operated_by, j.trace_id",
	},
	{
		what: "the attempt limit of what is put back", file: foldSQL, run: `TestWhatGoesToASuccessor`,
		old: "coalesce(most, j.max_attempts, 100)", new: "coalesce(j.max_attempts, 100)",
	},
	{
		what: "a job's own ids that are put back are the job's", file: foldSQL, run: `TestWhatGoesToASuccessor`,
		old: "LEFT JOIN jobs j ON j.id = p_job AND fold.taken = 0", new: "LEFT JOIN jobs j ON false",
	},
	{
		what: "a successor has its additions' attempt limit", file: refreshSQL, run: `TestWhatGoesToASuccessor`,
		old: "        r.max_attempts := w.most;\n", new: "",
	},
	{
		what: "a job of requeued ids goes on counting attempts", file: foldSQL, run: `TestRefusedIDs`,
		old: "CASE WHEN bool_and(g.from_job_id IS NOT NULL OR g.attempts > 0) THEN max(g.attempts) ELSE 0 END", new: "0",
	},
}
