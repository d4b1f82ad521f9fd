package main

const seatsSQL = "triggers/26_seats.sql"

// seating is who listens in a large fleet.
var seating = []mutation{
	{
		what: "a seat is one's own", file: seatsSQL, run: `TestSeats`,
		old: "IN SHARE UPDATE EXCLUSIVE MODE NOWAIT", new: "IN ROW EXCLUSIVE MODE NOWAIT",
	},
	{
		what: "a seat has no transaction id", file: seatsSQL, run: `TestSeats`,
		old: "IN SHARE UPDATE EXCLUSIVE MODE NOWAIT", new: "IN ACCESS EXCLUSIVE MODE NOWAIT",
	},
	{
		what: "who asks for a seat does not wait", file: seatsSQL, run: `TestSeats`,
		old: "MODE NOWAIT", new: "MODE",
	},
	{
		what: "a seat that is taken is passed over", file: seatsSQL, run: `TestSeats`,
		old: "EXCEPTION WHEN lock_not_available", new: "EXCEPTION WHEN division_by_zero",
	},
	{
		what: "each seat is tried", file: seatsSQL, run: `TestSeats`,
		old: "any_seat..any_seat + 3", new: "any_seat..any_seat + 2",
	},
	{
		what: "after the last seat comes the first", file: seatsSQL, run: `TestSeats`,
		old: "seat := i % 4 + 1;", new: "seat := least(i + 1, 4);",
	},
	{
		what: "who has a seat does not look for a line", file: seatsSQL, run: `TestSeats`,
		old: "            taken := true;\n            RETURN;", new: "            taken := true;",
	},
	{
		what: "the shortest line", file: seatsSQL, run: `TestSeats`,
		old: "ORDER BY count(l.pid), random()", new: "ORDER BY random()",
	},
	{
		what: "another database's seats", file: seatsSQL, run: `TestSeats`,
		old: "       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())\n", new: "",
	},
	{
		what: "another schema's seats", file: seatsSQL, run: `TestSeats`,
		old: "c.relnamespace = to_regnamespace(quote_ident(:'schema')) AND ", new: "",
	},
	{
		what: "who locks something else has no seat", file: seatsSQL, run: `TestSeats`,
		old: " AND c.relname IN ('seat_1', 'seat_2', 'seat_3', 'seat_4')", new: "",
	},
	{
		what: "who only looks at a seat does not have it", file: seatsSQL, run: `TestSeats`,
		old: " AND l.mode = 'ShareUpdateExclusiveLock'", new: "",
	},
	{
		what: "only who waits is called to a free seat", file: seatsSQL, run: `TestSeats`,
		old: " FILTER (WHERE NOT l.granted))[1]", new: ")[1]",
	},
	{
		what: "who has waited longest is called", file: seatsSQL, run: `TestSeats`,
		old: "ORDER BY l.since)", new: "ORDER BY l.since DESC)",
	},
	{
		what: "nobody is called while all seats are taken", file: seatsSQL, run: `TestSeats`,
		old: "count(DISTINCT l.seat) < 4", new: "count(DISTINCT l.seat) <= 4",
	},
	{
		what: "who leaves calls nobody while others hear", file: seatsSQL, run: `TestSeats`,
		old: "(p_always OR count(*) FILTER (WHERE l.granted) <= 2)", new: "true",
	},
	{
		what: "who leaves calls somebody when two others are left", file: seatsSQL, run: `TestSeats`,
		old: "FILTER (WHERE l.granted) <= 2", new: "FILTER (WHERE l.granted) < 2",
	},
	{
		what: "who looks after free seats calls always", file: seatsSQL, run: `TestSeats`,
		old: "p_always OR count", new: "count",
	},
	{
		what: "a fleet is those that live", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTells`,
		old: "workers w WHERE w.last_beat > clock_timestamp() - interval '15 s'),\n          CASE", new: "workers w),\n          CASE",
	},
	{
		what: "who hears looks after itself", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTells`,
		old: "CASE WHEN $5::boolean AND NOT", new: "CASE WHEN ($5::boolean OR true) AND NOT",
	},
	{
		what: "who is told of work is trusted to take it", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTells`,
		old: "w.wants_notify AND w.last_beat > clock_timestamp() - interval '6 s'", new: "false",
	},
	{
		what: "unless it has fallen silent", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTells`,
		old: "w.wants_notify AND w.last_beat > clock_timestamp() - interval '6 s'", new: "w.wants_notify",
	},
	{
		what: "a beat in reserve looks whether work is due", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTells`,
		old: "THEN :\"schema\".work_lies_there() ELSE", new: "THEN true ELSE",
	},
	{
		what: "a beat tells those who listen", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTellsThose`,
		old: "CASE WHEN $6::text <> ''", new: "CASE WHEN $6::text IS NULL",
	},
	{
		what: "most beats have nothing to tell", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTellsThose`,
		old: "CASE WHEN $6::text <> ''", new: "CASE WHEN $6::text IS NOT NULL",
	},
	{
		what: "those who listen are told on their channel", file: "internal/queue/sql/beat.sql", in: queueTests, run: `TestABeatTellsThose`,
		old: "pg_notify(:\"schema\".channel(), $6::text)", new: "pg_notify($3::text, $6::text)",
	},
}
