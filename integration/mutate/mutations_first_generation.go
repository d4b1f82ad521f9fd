package main

const (
	cteChangeSQL  = "triggers/cte/05_change.sql"
	cteEnqueueSQL = "triggers/cte/30_enqueue.sql"
	cteReserveSQL = "triggers/cte/41_reserve.sql"
	cteRequeueSQL = "triggers/cte/45_requeue.sql"
)

// firstGeneration is what the variant cte must do beside the race that it is there to show.
var firstGeneration = []mutation{
	{
		what: "cte has no successors", file: cteReserveSQL, run: `TestUnderVariantCTEACancelLeaves`,
		old: "AS $$ SELECT $$;", new: "AS $$ INSERT INTO jobs (type, config, successor) VALUES ('PRICE_REFRESH', jsonb_build_object('catalogId', p_catalog, 'productIds', '[]'::jsonb), true) $$;",
	},
	{
		what: "a successor is one no more when an enqueue joins it", file: cteEnqueueSQL, run: `TestUnderVariantCTEASuccessor`,
		old: "successor = false, ", new: "",
	},
	{
		what: "a successor is one no more when it is reserved", file: cteReserveSQL, run: `TestUnderVariantCTEASuccessor`,
		old: "successor = false, ", new: "",
	},
	{
		what: "a successor is one no more when a requeue joins it", file: cteRequeueSQL, run: `TestUnderVariantCTEASuccessor`,
		old: "successor = false, ", new: "",
	},
	{
		what: "a merging requeue asks for the whole catalog, too", file: cteRequeueSQL, run: `TestAFullRefreshThatGoesBack`,
		old: "CASE WHEN mine.config -> 'full' = 'true' THEN '{\"full\": true}'::jsonb ELSE '{}' END", new: "'{}'",
	},
	{
		what: "a return that is suppressed is an error", file: cteRequeueSQL, run: `TestARequeueThatATrigger`,
		old: "    PERFORM check_updated(p_id, FOUND);\n    outcome := 'requeued';", new: "    outcome := 'requeued';",
	},
	{
		what: "an end that is suppressed is an error", file: cteRequeueSQL, run: `TestARequeueThatATrigger`,
		old: "        PERFORM check_updated(p_id, FOUND);\n", new: "",
	},
	{
		what: "no change to cte while there are additions", file: cteChangeSQL, run: `TestTheVariantBecomesCTE`,
		old: "EXISTS (SELECT FROM :\"schema\".job_additions a WHERE a.catalog_id <> '')", new: "false",
	},
	{
		what: "nor while there are successors", file: cteChangeSQL, run: `TestTheVariantBecomesCTE`,
		old: "EXISTS (SELECT FROM :\"schema\".jobs j WHERE j.status = 'PENDING' AND j.successor)", new: "false",
	},
	{
		what: "what a sweep has to settle is no reason", file: cteChangeSQL, run: `TestTheVariantBecomesCTE`,
		old: " WHERE a.catalog_id <> ''", new: "",
	},
	{
		what: "cte may be installed anew beside additions", file: cteChangeSQL, run: `TestTheVariantBecomesCTE`,
		old: "d.variant <> 'cte'", new: "true",
	},
}
