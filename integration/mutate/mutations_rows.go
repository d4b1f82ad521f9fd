package main

const (
	purgeSQL = "internal/queue/sql/purge.sql"
	oldSQL   = "internal/queue/sql/purge_refreshes.sql"
	backSQL  = "internal/queue/sql/look_back.sql"

	queueTests = "./internal/queue/"
)

// rows is what the worker alone says of rows: conclusions, heartbeats, leases that ended, what is removed; and what a row is
// held to, whoever writes it.
var rows = []mutation{
	{
		what: "a completion's token", file: concludeSQL, run: `TestALostReservation`,
		old: "(id, token, errors, result)\n          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token",
		new: "(id, token, errors, result)\n          JOIN jobs j ON j.id = a.id AND j.status = 'RUNNING'",
	},
	{
		what: "a completion's SKIP LOCKED", file: concludeSQL, run: `TestEveryPair.*/nothing`,
		old: "(id, token, errors, result)\n          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token\n         WHERE j.id = ANY ((SELECT p_ids)::bigint[])\n         ORDER BY j.id FOR UPDATE OF j SKIP LOCKED",
		new: "(id, token, errors, result)\n          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token\n         WHERE j.id = ANY ((SELECT p_ids)::bigint[])\n         ORDER BY j.id FOR UPDATE OF j",
	},
	{
		what: "a heartbeat's token", file: concludeSQL, run: `TestALostReservation`,
		old: "(id, token, lease_ms)\n          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token",
		new: "(id, token, lease_ms)\n          JOIN jobs j ON j.id = a.id AND j.status = 'RUNNING'",
	},
	{
		what: "a heartbeat's SKIP LOCKED", file: concludeSQL, in: queueTests, run: `TestAHeartbeat`,
		old: "(id, token, lease_ms)\n          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token\n         WHERE j.id = ANY ((SELECT p_ids)::bigint[])\n         ORDER BY j.id FOR UPDATE OF j SKIP LOCKED",
		new: "(id, token, lease_ms)\n          JOIN jobs j ON j.id = a.id AND j.lock_token = a.token\n         WHERE j.id = ANY ((SELECT p_ids)::bigint[])\n         ORDER BY j.id FOR UPDATE OF j",
	},
	{
		what: "a completion reads no whole table, whenever its plan was made", file: concludeSQL, run: `TestNoPlanForASmall`,
		old: "p_results jsonb[]) RETURNS SETOF bigint\n    LANGUAGE plpgsql SET search_path = :\"schema\", pg_temp SET enable_seqscan = off",
		new: "p_results jsonb[]) RETURNS SETOF bigint\n    LANGUAGE plpgsql SET search_path = :\"schema\", pg_temp",
	},
	{
		what: "an enqueue reads no whole table, whenever its plan was made", file: enqueueSQL, run: `TestNoPlanForASmall`,
		old: " SET enable_seqscan = off", new: "",
	},
	{
		what: "a progress report's token", file: concludeSQL, run: `TestALostReservation`,
		old: "WHERE j.id = p_id AND j.lock_token = p_token",
		new: "WHERE j.id = p_id AND j.status = 'RUNNING'",
	},
	{
		what: "the token, for the question what is still held", file: concludeSQL, in: queueTests, run: `TestComplete|TestProgress`,
		old: "AS a (id, token)\n      JOIN jobs j ON j.id = a.id AND j.lock_token = a.token",
		new: "AS a (id, token)\n      JOIN jobs j ON j.id = a.id",
	},
	{
		what: "the end of the lease, for the search of what to rescue", file: concludeSQL, in: queueTests, run: `TestRescue|TestALongEnded|TestARescueAsks`,
		old: " AND j.lease_expires_at <= at",
		new: "",
	},
	{
		what: "a search of what to rescue reads no leases that have not ended", file: concludeSQL, in: queueTests, run: `TestASearchForEndedLeases`,
		old: "j.lease_expires_at <= at", new: "j.lease_expires_at <= clock_timestamp()",
	},
	{
		what: "a search of what to rescue goes back as far as it is told to", file: concludeSQL, in: queueTests, run: `TestNobodyReadsAll`,
		old: " AND j.lease_expires_at >= since", new: "",
	},
	{
		what: "what could not be rescued does not hide what is behind it", file: concludeSQL, in: queueTests, run: `TestJobsThatCantBeRescued`,
		old: "       AND j.id NOT IN (SELECT unnest(p_passed))\n",
		new: "",
	},
	{
		what: "the longest ended lease first", file: concludeSQL, in: queueTests, run: `TestRescue|TestALongEnded|TestARescueAsks`,
		old: "ORDER BY j.lease_expires_at LIMIT",
		new: "ORDER BY j.lease_expires_at DESC LIMIT",
	},
	{
		what: "what waits or runs has no end, and so is never purged", file: "migrations/0001_jobs.sql", in: queueTests, run: `TestPurge`,
		old: "        WHEN (status IN ('COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED')) <> (finished_at IS NOT NULL) THEN 'jobs_finished_at_iff_ended'\n", new: "",
	},
	{
		what: "a purge looks at the outcome", file: purgeSQL, in: queueTests, run: `TestPurge`,
		old: "AND status = ANY ($1::text[])", new: "AND $1::text[] IS NOT NULL",
	},
	{
		what: "a purge looks at the age", file: purgeSQL, in: queueTests, run: `TestPurge`,
		old: "WHERE finished_at < now() - $2::float8 * interval '1 second' AND", new: "WHERE finished_at < now() + $2::float8 * interval '1 second' AND",
	},
	{
		what: "a purge's LIMIT", file: purgeSQL, in: queueTests, run: `TestPurge|TestABatch`,
		old: "ORDER BY finished_at LIMIT $3 FOR", new: "ORDER BY finished_at, $3::int FOR",
	},
	{
		what: "a purge's SKIP LOCKED", file: purgeSQL, in: queueTests, run: `TestABatch`,
		old: "FOR UPDATE SKIP LOCKED))", new: "FOR UPDATE))",
	},
	{
		what: "a batch begins where the last one ended", file: purgeSQL, in: queueTests, run: `TestABatch`,
		old: " AND finished_at >= $4::timestamptz", new: "",
	},
	{
		what: "a purge looks at a refresh's age", file: oldSQL, in: queueTests, run: `TestOldRefreshes`,
		old: "WHERE finished_at < now() - $1::float8 * interval '1 second'", new: "WHERE $1::float8 > 0",
	},
	{
		what: "an active refresh is never purged", file: oldSQL, in: queueTests, run: `TestOldRefreshes`, all: true,
		old: "status <> 'ACTIVE' AND id >= $3", new: "id >= $3",
	},
	{
		what: "the bound of a search for old refreshes", file: oldSQL, in: queueTests, run: `TestOldRefreshes`,
		old: "LIMIT greatest($2::int, 1000)", new: "",
	},
	{
		what: "a purge's SKIP LOCKED, for refreshes", file: oldSQL, in: queueTests, run: `TestALockedRefresh`,
		old: "FOR UPDATE SKIP LOCKED))", new: "FOR UPDATE))",
	},
	{
		what: "who says nothing for long is no worker any more", file: "internal/queue/sql/register.sql", in: queueTests, run: `TestRegistering`,
		old: "last_beat < clock_timestamp() - interval '10 minutes'", new: "false",
	},
	{
		what: "registering waits for nobody's lock", file: "internal/queue/sql/register.sql", in: queueTests, run: `TestRegistering`,
		old: " FOR UPDATE SKIP LOCKED", new: "",
	},
	{
		what: "config is frozen once a job is reserved", file: guardSQL, in: queueTests, run: `TestTheInput`,
		old: "IF OLD.status <> 'PENDING' AND NEW.config IS DISTINCT FROM OLD.config THEN", new: "IF false THEN",
	},
	{
		what: "type and tenant of a price refresh stay", file: guardSQL, in: queueTests, run: `TestAWaitingPriceRefreshStays`,
		old: "IF (OLD.type = 'PRICE_REFRESH' OR NEW.type = 'PRICE_REFRESH')\n       AND", new: "IF false\n       AND",
	},
	{
		what: "the catalog of a price refresh stays", file: guardSQL, in: queueTests, run: `TestAWaitingPriceRefreshStays`,
		old: "IF OLD.type = 'PRICE_REFRESH' AND NEW.config -> 'catalogId' IS DISTINCT FROM OLD.config -> 'catalogId' THEN", new: "IF false THEN",
	},
	{
		what: "a waiting price refresh that stays PENDING takes no lock", file: guardSQL, in: queueTests, run: `TestAnUpdateThat`,
		old: " OR OLD.status = 'PENDING' THEN\n        RETURN NEW;", new: " THEN\n        RETURN NEW;",
	},
	{
		what: "other jobs that come back take no catalog's lock", file: guardSQL, in: queueTests, run: `TestAnUpdateThat`,
		old: "ELSIF NEW.type <> 'PRICE_REFRESH' OR OLD.status", new: "ELSIF OLD.status",
	},
	{
		what: "ids that are changed by hand are looked at", file: guardSQL, in: queueTests, run: `TestAWaiting`,
		old: "IF NEW.type = 'PRICE_REFRESH' AND NEW.status = 'PENDING' AND NEW.config IS DISTINCT FROM OLD.config THEN", new: "IF false THEN",
	},
	{
		what: "ids of a plain INSERT are looked at", file: guardSQL, run: `TestB08`,
		old: "        PERFORM check_product_ids(NEW.config -> 'productIds');\n        PERFORM check_full(NEW.config);\n    ELSIF", new: "    ELSIF",
	},
	{
		what: "a job that can't be reserved does not stop the others", file: reserveSQL, in: queueTests, run: `TestAJobThatCannot`,
		old: "        EXCEPTION WHEN OTHERS THEN\n            RAISE WARNING 'job % can''t be reserved: %', r.id, SQLERRM;\n", new: "",
	},
	{
		what: "ids that no row can hold together are taken in parts", file: refreshSQL, in: queueTests, run: `TestIDsThat`,
		old: "            most := most / 4 + 1;\n        END;\n", new: "            RAISE;\n        END;\n",
	},
	{
		what: "a job is not reserved before it is due", file: reserveSQL, in: queueTests, run: `TestReserveTells`,
		old: " AND j.run_after <= at\n                  ORDER", new: "\n                  ORDER",
	},
	{
		what: "each reservation has a token of its own", file: reserveSQL, run: `TestALostReservation`, all: true,
		old: "lock_token = gen_random_uuid()", new: "lock_token = 'aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa'",
	},
	{
		what: "an attempt is counted when it is taken", file: refreshSQL, in: queueTests, run: `TestRequeueMerges|TestRequeueWithout`,
		old: "2147483646) + 1,\n           started_at = at", new: "2147483646),\n           started_at = at",
	},
	{
		what: "types have leases of their own", file: reserveSQL, in: queueTests, run: `TestTypes`, all: true,
		old: "coalesce((p_leases ->> j.type)::integer, p_lease_ms)", new: "p_lease_ms",
	},
	{
		what: "a look tells when the next job is due", file: reserveSQL, in: queueTests, run: `TestReserveTells`,
		old: "due_ms := extract(epoch FROM due - clock_timestamp()) * 1000;", new: "due_ms := NULL;",
	},
	{
		what: "a look tells when the next lease of a job ends", file: reserveSQL, in: queueTests, run: `TestALookTells`,
		old: "    SELECT j.lease_expires_at INTO lease FROM jobs j\n     WHERE j.status = 'RUNNING' AND j.lease_expires_at >= p_from AND j.lease_expires_at < until ORDER BY j.lease_expires_at LIMIT 1;\n", new: "",
	},
	{
		what: "a near look does not read the leases of jobs that ran", file: reserveSQL, in: queueTests, run: `TestNobodyReadsAll`,
		old: " AND j.lease_expires_at < until", new: "",
	},
	{
		what: "a look that starts further back tells of every lease", file: reserveSQL, in: queueTests, run: `TestANearLook`,
		old: "CASE WHEN p_from > clock_timestamp() - interval '1 s' THEN clock_timestamp() + interval '250 ms' ELSE 'infinity' END", new: "clock_timestamp() + interval '250 ms'",
	},
	{
		what: "a look starts where it is told to", file: reserveSQL, in: queueTests, run: `TestWhileLooksAreSlow|TestTheLookAfter|TestALookBack`,
		old: "AND j.run_after >= p_from AND j.run_after <= at\n                  ORDER", new: "AND j.run_after <= at\n                  ORDER",
	},
	{
		what: "a look back sees what waits", file: backSQL, in: queueTests, run: `TestALookBack`,
		old: "j.status = 'PENDING' AND j.run_after >= $1", new: "j.run_after >= $1",
	},
	{
		what: "a look back finds the longest due job", file: backSQL, in: queueTests, run: `TestALookBack`,
		old: "ORDER BY j.run_after LIMIT 1", new: "ORDER BY j.run_after DESC LIMIT 1",
	},
	{
		what: "a look back moves on no further than looks in between reach", file: backSQL, in: queueTests, run: `TestALookBack`,
		old: "clock_timestamp() - $3 * interval '1 ms'", new: "clock_timestamp() - 0 * $3 * interval '1 ms'",
	},
	{
		what: "a look in between starts where it is told to", file: backSQL, in: queueTests, run: `TestWhileLooksAreSlow`,
		old: "j.run_after >= $1 AND", new: "",
	},
	{
		what: "a look in between tells of the next lease of a job", file: backSQL, in: queueTests, run: `TestALookInBetween`,
		old: "least(job.lease_expires_at, refresh.lease_expires_at)", new: "refresh.lease_expires_at",
	},
	{
		what: "a look in between tells of the next lease of a refresh", file: backSQL, in: queueTests, run: `TestALookInBetween`,
		old: "least(job.lease_expires_at, refresh.lease_expires_at)", new: "job.lease_expires_at",
	},
	{
		what: "a look tells when the next lease of a refresh ends", file: reserveSQL, in: queueTests, run: `TestALookTellsWhenTheNextLeaseOfARefresh`,
		old: "WHERE r.status = 'ACTIVE' AND r.lease_expires_at >= p_from AND r.lease_expires_at < until", new: "WHERE false",
	},
	{
		what: "a near look does not read the leases of refreshes that ended", file: reserveSQL, in: queueTests, run: `TestANearLook`,
		old: " AND r.lease_expires_at < until", new: "",
	},
	{
		what: "a release at a shutdown costs no attempt", file: requeueSQL, in: queueTests, run: `TestARelease`,
		old: "p_cause = 'released' THEN greatest(a.attempts - 1, 0)", new: "p_cause = 'released' THEN a.attempts",
	},
	{
		what: "a replay begins anew", file: requeueSQL, in: queueTests, run: `TestTheAttemptLimit`,
		old: "WHEN p_cause = 'replayed' THEN 0 WHEN", new: "WHEN p_cause = 'replayed' THEN a.attempts WHEN",
	},
	{
		what: "what failed for good is not tried again", file: requeueSQL, run: `TestAReplayThatIsAbout`,
		old: "IF p_cause = 'permanent' OR (", new: "IF (",
	},
	{
		what: "a type's own limit of attempts", file: requeueSQL, in: queueTests, run: `TestATypes`,
		old: "least(a.max_attempts, nullif(p_limit, 0))", new: "a.max_attempts",
	},
	{
		what: "the delay of a return", file: requeueSQL, in: queueTests, run: `TestErrorsAnd`,
		old: "due := at + least(greatest(p_delay_ms, 0), 315360000000) * interval '1 ms';", new: "due := at;",
	},
	{
		what: "a dead worker's wish counts for nothing", file: notifySQL, in: queueTests, run: `TestCommitsNotify`, all: true,
		old: " AND w.last_beat > clock_timestamp() - interval '1 minute'", new: "",
	},
	{
		what: "a key too long for a payload is \"look at everything\"", file: notifySQL, in: queueTests, run: `TestAPayload`,
		old: "CASE WHEN octet_length(payload) < 7900 THEN payload ELSE '{}' END", new: "payload",
	},
	{
		what: "a payload says when a job is due", file: notifySQL, in: queueTests, run: `TestAPayload`,
		old: "'due', CASE WHEN announce.due > clock_timestamp() THEN ceil(extract(epoch FROM announce.due) * 1000)::bigint END", new: "'due', NULL",
	},
}
