package main

const (
	takeLockSQL = "internal/queue/sql/take_lock.sql"
	takeLookSQL = "internal/queue/sql/take_look.sql"
	handsKeySQL = "internal/queue/sql/hands_key.sql"
	mineSQL     = "internal/queue/sql/mine.sql"
)

// handedTaken is how a worker takes what it was handed, and takes back what it could not take.
var handedTaken = []mutation{
	{
		what: "who takes a job has its lock", file: takeLockSQL, in: queueTests, run: `TestAJobIsNotTakenOver`,
		old: `pg_try_advisory_lock(:"schema".taken_key(j.id))`, new: "true",
	},
	{
		what: "another's job is not locked", file: takeLockSQL, in: queueTests, run: `TestAJobThatIsNotTheWorkers`,
		old: " AND j.worker_id = $2::text::uuid AND", new: " AND $2::text IS NOT NULL AND",
	},
	{
		what: "nor one that an earlier session was handed", file: takeLockSQL, in: queueTests, run: `TestAJobThatAnEarlierSession`,
		old: `handed_key(j.lock_token) = $3`, new: `handed_key(j.lock_token) IS NOT NULL AND $3::integer IS NOT NULL`,
	},
	{
		what: "nor one that was taken back", file: takeLockSQL, in: queueTests, run: `TestAJobThatIsNotTheWorkers`,
		old: `:"schema".handed_key(j.lock_token) = $3`, new: `coalesce(:"schema".handed_key(j.lock_token), $3) = $3`,
	},
	{
		what: "a worker takes its own only", file: takeLookSQL, in: queueTests, run: `TestAWorkerTakesOnly`,
		old: " AND j.worker_id = $2::text::uuid AND", new: " AND $2::text IS NOT NULL AND",
	},
	{
		what: "and nothing that was taken back", file: takeLookSQL, in: queueTests, run: `TestAJobThatIsNotTheWorkers`,
		old: ` AND :"schema".handed_key(j.lock_token) IS NOT NULL`, new: "",
	},
	{
		what: "what is left of its lease", file: takeLookSQL, in: queueTests, run: `TestTakingTells`,
		old: "j.lease_expires_at - clock_timestamp()", new: "j.lease_expires_at - j.started_at",
	},
	{
		what: "what is over is given back", file: "internal/queue/sql/let.sql", in: queueTests, run: `TestAJobThatIsOver`,
		old: `pg_advisory_unlock(:"schema".taken_key(x.id))`, new: "x.id",
	},
	{
		what: "a session that takes what is handed over has its lock", file: handsKeySQL, in: queueTests, run: `TestADueJobIsHanded`,
		old: "pg_try_advisory_lock(1853292549, $1)", new: "$1::integer IS NOT NULL",
	},
	{
		what: "and plans by index", file: handsKeySQL, in: queueTests, run: `TestTheSessionOfTheHands`,
		old: "set_config('enable_seqscan', 'off', false)", new: "''",
	},
	{
		what: "and sees what was committed before its lock was had", file: handsKeySQL, in: queueTests, run: `TestTheSessionOfTheHands`,
		old: "set_config('default_transaction_isolation', 'read committed', false)", new: "''",
	},
	{
		what: "who has hung up waits for the session's end", file: "internal/queue/sql/hung_up.sql", in: queueTests, run: `TestWhoHasHungUp`,
		old: "pg_advisory_xact_lock_shared(1853292549, $1)", new: "$1::integer",
	},
	{
		what: "what is another's is not asked for", file: mineSQL, in: queueTests, run: `TestMineIs`,
		old: "j.worker_id = $1::text::uuid", new: "$1::text IS NOT NULL",
	},
	{
		what: "what is to be rescued is not asked for", file: mineSQL, in: queueTests, run: `TestMineIs`,
		old: " AND j.lease_expires_at > statement_timestamp()", new: "",
	},
	{
		what: "who asks what is its own does not read the leases of jobs that ran", file: mineSQL, in: queueTests, run: `TestNobodyReadsAll`,
		old: "statement_timestamp()", new: "clock_timestamp()",
	},
	{
		what: "who looks for what lies there does not read the leases of jobs that ran", file: handSQL, in: queueTests, run: `TestNobodyReadsAll`,
		old: "AND j.lease_expires_at > at AND j.started_at", new: "AND j.lease_expires_at > clock_timestamp() AND j.started_at",
	},
	{
		what: "one whose row is locked hides no other that lies there", file: handSQL, in: queueTests, run: `TestAnyThatLie`,
		old: "            IF FOUND THEN\n                lain := lain || r.id;\n            END IF;\n", new: "            lain := lain || r.id;\n",
	},
	{
		what: "who was handed a job a moment ago has time to take it", file: handSQL, in: queueTests, run: `TestAnyThatLie`,
		old: " AND j.started_at <= at - p_ago_ms * interval '1 ms'", new: "",
	},
	{
		what: "who looks for jobs by their ids does not read the leases of jobs that ran", file: handSQL, in: queueTests, run: `TestNobodyReadsAll`, all: true,
		old: " AND j.worker_id <> p_worker ORDER BY j.id LOOP", new: " AND j.status = 'RUNNING' AND j.worker_id <> p_worker ORDER BY j.id LOOP",
	},
	{
		what: "what was taken is not taken back", file: handSQL, in: queueTests, run: `TestWhatIsTakenBack`,
		old: "had := handed_key(token) IS NULL OR pg_try_advisory_xact_lock(taken_key(job));", new: "had := true;",
	},
	{
		what: "what was not handed over is, whoever has that lock", file: handSQL, in: queueTests, run: `TestWhatWasNotHandedOver`,
		old: "had := handed_key(token) IS NULL OR pg_try", new: "had := pg_try",
	},
	{
		what: "what another worker has is not taken back", file: handSQL, in: queueTests, run: `TestWhatIsTakenBack`,
		old: " AND j.worker_id = p_worker AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;", new: " AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;",
	},
	{
		what: "nor what was taken back meanwhile, or over", file: handSQL, in: queueTests, run: `TestAJobThatWasTakenBackMeanwhile`,
		old: "j.lock_token = token AND j.worker_id = p_worker AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;", new: "j.worker_id = p_worker AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;",
	},
	{
		what: "nor one whose lease has ended", file: handSQL, in: queueTests, run: `TestAJobWhoseLeaseHasEnded`,
		old: " AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;", new: " FOR UPDATE SKIP LOCKED;",
	},
	{
		what: "a row that somebody has locked is not taken back", file: handSQL, in: queueTests, run: `TestTakingBackWaits`,
		old: " AND j.worker_id = p_worker AND j.lease_expires_at > at FOR UPDATE SKIP LOCKED;", new: " AND j.worker_id = p_worker AND j.lease_expires_at > at FOR UPDATE;",
	},
	{
		what: "what is taken back gets a token that nobody takes over", file: handSQL, in: queueTests, run: `TestAJobThatIsTakenBack`,
		old: "UPDATE jobs j SET lock_token = gen_random_uuid(), started_at = at, updated_at = at,\n                       lease", new: "UPDATE jobs j SET started_at = at, updated_at = at,\n                       lease",
	},
	{
		what: "and the lease of its type", file: handSQL, in: queueTests, run: `TestAJobThatIsTakenBack`,
		old: "                       lease_expires_at = at + coalesce((p_leases ->> j.type)::integer, p_lease_ms) *", new: "                       lease_expires_at = at + p_lease_ms *",
	},
	{
		what: "one that a trigger refuses holds up no other", file: handSQL, in: queueTests, run: `TestTakingBackWaits`,
		old: "EXCEPTION WHEN OTHERS THEN -- a trigger of the user's refuses it, say: that must", new: "EXCEPTION WHEN division_by_zero THEN -- that must",
	},
	{
		what: "what can't be taken back now is asked for again", file: handSQL, in: queueTests, run: `TestAJobThatSomebodyLooksAfter`,
		old: "FROM jobs j WHERE j.id = job AND j.lock_token = token AND j.worker_id = p_worker AND j.lease_expires_at > at;", new: "FROM jobs j WHERE false;",
	},
	{
		what: "unless it was taken back or over by then", file: handSQL, in: queueTests, run: `TestAJobThatWasTakenBackMeanwhile`,
		old: "FROM jobs j WHERE j.id = job AND j.lock_token = token AND j.worker_id = p_worker AND j.lease_expires_at > at;", new: "FROM jobs j WHERE j.id = job AND j.worker_id = p_worker AND j.lease_expires_at > at;",
	},
}
