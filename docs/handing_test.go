package docs_test

import (
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// Also in a schema that nobody has run grants.sql on: whoever could put such a function on a table of theirs had the owner's rights.
func TestWhatRunsWithItsOwnersRightsIsNobodyElsesToCall(t *testing.T) {
	conn := pgtest.DB(t).Conn(t)
	var all, loose []string
	err := conn.QueryRow(t.Context(), `SELECT array_agg(proname::text), coalesce(array_agg(proname::text) FILTER (WHERE proacl IS NULL
			OR EXISTS (SELECT FROM aclexplode(proacl) a WHERE a.grantee <> proowner) OR proconfig IS NULL OR NOT 'search_path=notifyworker, pg_temp' = ANY (proconfig)), '{}')
		FROM pg_proc WHERE pronamespace = 'notifyworker'::regnamespace AND prosecdef`).Scan(&all, &loose)
	if err != nil || len(all) != 3 || len(loose) > 0 {
		t.Errorf("with their owner's rights run %v, want announce_work, nobody_sleeps and note_sleeper alone; loose are %v, %v", all, loose, err)
	}
}

// deniedWorkers wants a role to see nothing of who works.
func (h house) deniedWorkers(conn *pgx.Conn) {
	h.t.Helper()
	h.denied(conn, `SELECT host FROM :"schema".workers`, `SELECT wants_notify FROM :"schema".workers`, `SELECT last_beat FROM :"schema".workers`,
		`SELECT hands FROM :"schema".workers`, `SELECT count(*) FROM :"schema".workers`)
}

// deniedHands wants a role to have no part in handing over but that of its own commits, which tell workers with their owner's rights.
func (h house) deniedHands(conn *pgx.Conn) {
	h.t.Helper()
	h.denied(conn,
		`SELECT :"schema".announce('t', NULL, NULL, NULL)`, `SELECT :"schema".channel()`, `SELECT :"schema".somebody_sleeps()`,
		`SELECT :"schema".nobody_sleeps()`, `SELECT setval(':"schema".no_sleepers', 1)`, `SELECT nextval(':"schema".no_sleepers')`,
		`SELECT :"schema".hand_over(1)`, `SELECT :"schema".is_whole(gen_random_uuid(), 'c', '{}', 0, false, 1)`,
		`SELECT :"schema".handed_key(gen_random_uuid())`, `SELECT :"schema".taken_key(1)`,
		`SELECT * FROM :"schema".take_back('{1}', '{}', gen_random_uuid(), 1000)`, `SELECT * FROM :"schema".take_over(1, '{1}', gen_random_uuid(), 1000)`,
		`UPDATE :"schema".workers SET hands = NULL`,
		`CREATE TEMP TABLE jobs (id bigint, status text, run_after timestamptz);
		 CREATE TRIGGER mine AFTER INSERT ON pg_temp.jobs FOR EACH ROW EXECUTE FUNCTION :"schema".announce_work()`,
	)
}

// handing: whoever may enqueue, and no more, has its jobs handed to a worker that sleeps.
func (h house) handing(t *testing.T) {
	h.t = t
	const workerA, workerB = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
	api, sleeper, other := h.login("api"), h.store(workerA), h.store(workerB)
	if err := sleeper.OpenHands(t.Context(), h.login("notifyworker_worker")); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	var own []queue.Own
	for i, sql := range []string{
		`SELECT :"schema".enqueue_price_refresh('handed 1', '["p1"]')`,
		`SELECT :"schema".enqueue_price_refreshes('[{"catalogId": "handed 2", "productIds": ["p1", "p2"]}]')`,
		`SELECT :"schema".enqueue_full_refresh('handed 3')`,
		`SELECT :"schema".enqueue_job('t', '{}', max_attempts => 3)`,
		`INSERT INTO :"schema".jobs (type, config) VALUES ('u', '{}')`,
	} {
		if refused, err := sleeper.WantNotify(t.Context(), true, true); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
		h.must(api, `BEGIN; INSERT INTO orders VALUES (1); `+sql+`; COMMIT`)
		mine, err := sleeper.Mine(t.Context())
		if err != nil || len(mine) != i+1 {
			t.Fatalf("%s: %d jobs are handed over, %v, want %d", sql, len(mine), err, i+1)
		}
		ids, own = ids[:0], mine
		for _, m := range mine {
			ids = append(ids, m.ID)
		}
	}
	for _, id := range ids[2:] {
		if taken, again, err := sleeper.Take(t.Context(), id); err != nil || again || taken == nil {
			t.Errorf("took %+v of job %d, again %v, %v", taken, id, again, err)
		}
	}
	if js, again, err := sleeper.TakeBack(t.Context(), own[1:2]); err != nil || len(again) > 0 || len(js) != 1 {
		t.Errorf("took back %+v of job %d, again %d, %v", js, ids[1], again, err)
	}
	if js, err := other.TakeOver(t.Context(), ids, len(ids), 0); err != nil || len(js) != 1 || js[0].ID != ids[0] {
		t.Errorf("took over %+v of %d, %v", js, ids, err)
	}
	if err := sleeper.Deregister(t.Context()); err != nil {
		t.Error(err)
	}
}
