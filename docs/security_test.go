package docs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifyworker/examples/pricing"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestTheRolesCanDoTheirPartAndNothingElse(t *testing.T) {
	h := newHouse(t, migrations.DefaultSchema)
	t.Run("client", func(t *testing.T) { h.client(t) })
	t.Run("handing over", func(t *testing.T) { h.handing(t) })
	t.Run("worker", func(t *testing.T) { h.worker(t) })
	t.Run("reader", func(t *testing.T) { h.reader(t) })
	t.Run("owner", func(t *testing.T) { h.owner(t) })
	t.Run("stranger", func(t *testing.T) { h.stranger(t) })
}

func TestTheRolesWorkInASchemaOfAnyName(t *testing.T) {
	h := newHouse(t, "Prix-2")
	h.must(h.login("api"), `SELECT :"schema".enqueue_price_refresh('c', '["p"]')`)
	t.Run("handing over", func(t *testing.T) { h.handing(t) })
	h.must(h.login("notifyworker_worker"), `SELECT * FROM :"schema".reserve(1, gen_random_uuid(), 1000)`)
	h.must(h.login("support"), `SELECT * FROM :"schema".jobs`)
}

func TestUnderVariantCTEPriceRefreshesAreEnqueuedWithTheWorkersRights(t *testing.T) {
	h := newHouse(t, migrations.DefaultSchema)
	owner := h.login("notifyworker_owner")
	if _, err := migrations.Up(t.Context(), owner, migrations.Options{Schema: h.schema, Triggers: triggers.Files, Variant: "cte"}); err != nil {
		t.Fatal(err)
	}
	h.must(owner, read(t, "grants.sql"))
	enqueue := `SELECT :"schema".enqueue_price_refresh('c', '["p1"]')`
	api, worker := h.login("api"), h.login("notifyworker_worker")
	h.denied(api, enqueue)
	h.must(api, `SELECT :"schema".enqueue_job('t')`)
	h.must(worker, enqueue)
	h.must(worker, enqueue)
}

func (h house) client(t *testing.T) {
	h.t = t
	api, sleeper := h.login("api"), h.login("notifyworker_worker")
	// Somebody wants to be told, so the deferred triggers do all they can.
	h.must(sleeper, `LISTEN notifyworker; INSERT INTO :"schema".workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 1, 'v', 1, true)`)
	ids := `'["p1"]'`
	for _, sql := range []string{
		`SELECT :"schema".enqueue_price_refresh('c', ` + ids + `)`,
		`SELECT :"schema".enqueue_price_refresh('c', ` + ids + `, operated_by => gen_random_uuid(), trace_id => 't', delay => '1 s')`,
		`SELECT :"schema".enqueue_price_refreshes('[{"catalogId": "d", "productIds": [1]}]')`,
		`SELECT :"schema".enqueue_full_refresh('e')`,
		`SELECT :"schema".enqueue_job('t', '{}', max_attempts => 3)`,
		`INSERT INTO :"schema".jobs (type, config) VALUES ('u', '{}') RETURNING id`,
		`INSERT INTO :"schema".jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "raw", "productIds": []}')`,
		`SELECT id, status FROM :"schema".jobs WHERE catalog_id = 'c'`,
	} {
		h.must(api, `BEGIN; INSERT INTO orders VALUES (1); `+sql+`; COMMIT`)
		h.must(api, `BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO orders VALUES (1); `+strings.ReplaceAll(sql, `"raw"`, `"raw2"`)+`; COMMIT`)
	}
	// Nobody else's transaction of the same catalog may make it need more.
	other := h.login("api")
	h.must(api, `BEGIN; SELECT :"schema".enqueue_price_refresh('new', '["p1"]')`)
	h.must(other, `SELECT :"schema".enqueue_price_refresh('new', '["p2"]')`)
	h.must(api, `COMMIT`)

	// And when it is said that nobody does.
	h.must(sleeper, `UPDATE :"schema".workers SET wants_notify = false`)
	h.must(sleeper, `SELECT :"schema".nobody_sleeps()`)
	h.must(h.login("notifyworker_owner"), `DO $$ BEGIN IF pg_sequence_last_value(':"schema".no_sleepers') IS NULL THEN RAISE 'nobody says so'; END IF; END $$`)
	h.denied(sleeper, `SELECT nextval(':"schema".no_sleepers')`, `SELECT setval(':"schema".no_sleepers', 1, false)`)
	h.must(api, `SELECT :"schema".enqueue_job('t')`)
	h.must(sleeper, `UPDATE :"schema".workers SET wants_notify = true`)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := sleeper.WaitForNotification(ctx); err != nil {
		t.Errorf("the client's commit told nobody: %v", err)
	}
	h.denied(api,
		`SELECT config FROM :"schema".jobs`, `SELECT result FROM :"schema".jobs`, `SELECT lock_token FROM :"schema".jobs`,
		`SELECT * FROM :"schema".job_additions`, `SELECT * FROM :"schema".refreshes`, `SELECT name FROM :"schema".tenants`,
		`SELECT * FROM :"schema".schema_version`,
		`UPDATE :"schema".jobs SET run_after = now()`, `DELETE FROM :"schema".jobs`, `DELETE FROM :"schema".job_additions`, `UPDATE :"schema".workers SET wants_notify = false`,
		`INSERT INTO :"schema".jobs (type, status) VALUES ('x', 'FAILED')`, `INSERT INTO :"schema".jobs (type, result) VALUES ('x', '{}')`,
		`INSERT INTO :"schema".jobs (type, successor) VALUES ('x', true)`,
		`INSERT INTO :"schema".tenants (id, name) VALUES (gen_random_uuid(), 'x')`,
		`INSERT INTO :"schema".refreshes (job_id, tenant_id, catalog_id, scope) VALUES (1, gen_random_uuid(), 'c', 'FULL')`,
		`SELECT * FROM :"schema".reserve(1, gen_random_uuid(), 1000)`, `SELECT * FROM :"schema".requeue(1, 'replayed', NULL)`,
		`SELECT * FROM :"schema".replay(1)`, `SELECT * FROM :"schema".cancel(1)`, `SELECT :"schema".sweep()`, `SELECT :"schema".barrier(1)`,
		`DO $$ BEGIN LOCK TABLE :"schema".seat_1 IN ACCESS SHARE MODE; END $$`, `SELECT :"schema".take_seat()`, `SELECT :"schema".fill_seats(true)`,
		`CREATE TABLE :"schema".mine (n integer)`, `DROP TABLE :"schema".jobs`, `TRUNCATE :"schema".jobs`,
	)
	h.deniedWorkers(api)
	h.deniedHands(api)
}

func (h house) worker(t *testing.T) {
	h.t = t
	ctx := t.Context()
	cfg, err := pgxpool.ParseConfig(h.server.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.User = "notifyworker_worker"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Check(ctx, pool, h.schema, triggers.Files); err != nil {
		t.Errorf("check the schema: %v", err)
	}
	s, err := queue.New(queue.Config{DB: pool, WorkerID: "aaaaaaaa-0000-4000-8000-000000000001"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("register", s.Register(ctx, queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}))
	_, err = s.Beat(ctx, queue.Sign{EchoChannel: "echo", Nonce: "n"})
	check("beat", err)
	_, err = s.WantNotify(ctx, true, false)
	check("want notify", err)
	_, err = s.Barrier(ctx)
	check("barrier", err)

	conn := h.login("notifyworker_worker")
	h.must(conn, `BEGIN; SELECT :"schema".take_seat(); LOCK TABLE :"schema".seat_1 IN SHARE UPDATE EXCLUSIVE MODE; ROLLBACK; SELECT :"schema".fill_seats(true)`)
	h.must(conn, `LISTEN notifyworker; SELECT :"schema".enqueue_price_refresh('w', '["p"]'), :"schema".enqueue_job('x'), :"schema".enqueue_job('y'), :"schema".enqueue_job('z')`)
	h.must(conn, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT :"schema".enqueue_price_refresh('w2', '["p"]'); COMMIT`)
	r, err := s.Reserve(ctx, 100)
	check("reserve", err)
	if len(r.Jobs) < 5 {
		t.Fatalf("reserved %d jobs", len(r.Jobs))
	}
	h.must(conn, `SELECT :"schema".enqueue_price_refresh('w', '["q"]')`)
	for _, j := range r.Jobs {
		check("progress", s.Progress(ctx, j.ID, j.Token, nil))
		switch {
		case j.Type == queue.TypePriceRefresh, j.Type == "x":
			_, err := s.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused})
			check("requeue", err)
		case j.Type == "y":
			_, err := s.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CausePermanent})
			check("fail", err)
			h.must(conn, `SELECT * FROM :"schema".replay((SELECT max(id) FROM :"schema".jobs WHERE type = 'y'))`)
			h.must(conn, `SELECT * FROM :"schema".cancel((SELECT max(id) FROM :"schema".jobs WHERE type = 'y'))`)
		default:
			_, _, err := s.Extend(ctx, []queue.Held{{ID: j.ID, Token: j.Token, Type: j.Type}})
			check("extend", err)
			_, err = s.Complete(ctx, []queue.Completion{{ID: j.ID, Token: j.Token}})
			check("complete", err)
		}
	}
	_, err = s.Rescue(ctx, 10)
	check("rescue", err)
	_, err = s.Sweep(ctx)
	check("sweep", err)
	_, err = s.Purge(ctx, queue.Retention{Completed: time.Hour, Failed: time.Hour}, 10)
	check("purge", err)
	_, err = s.Depth(ctx)
	check("depth", err)
	_, err = s.Durations(ctx, time.Hour)
	check("durations", err)
	check("deregister", s.Deregister(ctx))

	// The engine: admission, progress, heartbeat, a take-over, a release with a dead letter.
	h.must(conn, `SELECT :"schema".enqueue_price_refresh('engine', '["p1", "p2"]')`)
	if _, err := s.Reserve(ctx, 100); err != nil {
		t.Fatal(err)
	}
	h.must(conn, `SELECT a.* FROM :"schema".jobs j, :"schema".admit_refresh(j.id, j.lock_token, j.worker_id, 60000) a WHERE j.catalog_id = 'engine'`)
	h.must(conn, `SELECT :"schema".progress_refresh(id, lock_token, 60000, 1, 1), :"schema".extend_refreshes(ARRAY[id], ARRAY[lock_token], 0) FROM :"schema".refreshes`)
	h.must(conn, `SELECT * FROM :"schema".take_over_refreshes(gen_random_uuid(), 60000, 10)`)
	h.must(conn, `SELECT r.* FROM :"schema".refreshes x, :"schema".release_refresh(x.id, x.lock_token, 0, '[{"id": "p2", "error": "no"}]') r`)
	h.must(conn, `SELECT :"schema".begin_refresh(1, gen_random_uuid(), 1), :"schema".hand_back_refreshes('{}', '{}'), :"schema".article_of('1a')`)
	var letters int
	err = conn.QueryRow(ctx, migrations.Render(`SELECT count(*) FROM :"schema".jobs WHERE catalog_id = 'engine' AND status = 'FAILED'`, h.schema)).Scan(&letters)
	if err != nil || letters != 1 {
		t.Errorf("%d dead letters, %v", letters, err)
	}

	// The user's own function, with the rights that the page grants.
	admin := h.login("postgres")
	check("install the sample application", pricing.Install(ctx, admin))
	h.must(admin, `ALTER FUNCTION pricing.recompute(text, jsonb) SECURITY DEFINER`)
	h.denied(conn, `SELECT pricing.recompute('c', '[]')`)
	for _, b := range blocks(section(t, read(t, "security.md"), "## Your recompute function")) {
		h.must(admin, b.text)
	}
	h.must(conn, `SELECT pricing.recompute('c', '[]')`)

	h.denied(conn,
		`CREATE TABLE :"schema".mine (n integer)`, `CREATE FUNCTION :"schema".mine() RETURNS integer LANGUAGE sql RETURN 1`,
		`ALTER TABLE :"schema".jobs ADD COLUMN mine integer`, `DROP TABLE :"schema".refreshes`, `DROP FUNCTION :"schema".sweep()`,
		`ALTER TABLE :"schema".jobs DISABLE TRIGGER ALL`, `TRUNCATE :"schema".job_additions`, `CREATE SCHEMA mine`, `CREATE TABLE public.mine (n integer)`,
		`INSERT INTO :"schema".tenants (id, name) VALUES (gen_random_uuid(), 'x')`, `UPDATE :"schema".schema_definition SET variant = 'cte'`,
		`INSERT INTO :"schema".schema_version VALUES (99, 'x', 'x', true, 0)`, `INSERT INTO orders VALUES (1)`,
	)
}

func (h house) reader(t *testing.T) {
	h.t = t
	support := h.login("support")
	for _, table := range []string{"jobs", "job_additions", "refreshes", "workers", "tenants", "schema_version", "schema_definition"} {
		h.must(support, `SELECT * FROM :"schema".`+table)
	}
	h.must(support, `SELECT * FROM :"schema".seat_locks()`)
	h.must(h.login("postgres"), `CREATE ROLE dashboard LOGIN; GRANT notifyworker_client, notifyworker_reader TO dashboard`)
	both := h.login("dashboard")
	if err := migrations.Check(t.Context(), both, h.schema, triggers.Files); err != nil {
		t.Errorf("a client that reads can't check the schema: %v", err)
	}
	h.must(both, `SELECT :"schema".enqueue_price_refresh('c', '["p"]'); SELECT result FROM :"schema".jobs`)
	h.denied(support,
		`SELECT :"schema".enqueue_job('x')`, `SELECT :"schema".enqueue_price_refresh('c', '[]')`, `SELECT :"schema".replay(1)`, `SELECT :"schema".cancel(1)`,
		`DO $$ BEGIN LOCK TABLE :"schema".seat_1 IN SHARE UPDATE EXCLUSIVE MODE; END $$`, `SELECT :"schema".take_seat()`, `SELECT :"schema".fill_seats(true)`,
		`INSERT INTO :"schema".jobs (type) VALUES ('x')`, `UPDATE :"schema".jobs SET run_after = now()`, `DELETE FROM :"schema".jobs`,
		`SELECT FROM :"schema".jobs FOR UPDATE`,
	)
	h.deniedHands(support)
}

func (h house) owner(t *testing.T) {
	h.t = t
	owner, worker, api, support := h.login("notifyworker_owner"), h.login("notifyworker_worker"), h.login("api"), h.login("support")
	h.denied(owner, `CREATE SCHEMA elsewhere`, `CREATE TABLE public.mine (n integer)`, `SELECT * FROM orders`, `CREATE ROLE x`)
	// What a later migration adds is the worker's and the reader's at once, and nobody else's.
	h.must(owner, `CREATE TABLE :"schema".later (id bigint GENERATED ALWAYS AS IDENTITY, n integer); CREATE FUNCTION :"schema".later() RETURNS integer LANGUAGE sql RETURN 1`)
	h.must(worker, `INSERT INTO :"schema".later (n) VALUES (:"schema".later())`)
	h.must(support, `SELECT * FROM :"schema".later`)
	h.denied(support, `SELECT :"schema".later()`, `INSERT INTO :"schema".later (n) VALUES (1)`)
	h.denied(api, `SELECT * FROM :"schema".later`, `SELECT :"schema".later()`)
	h.must(owner, `DROP TABLE :"schema".later; DROP FUNCTION :"schema".later()`)
}

func (h house) stranger(t *testing.T) {
	h.t = t
	h.denied(h.login("stranger"), `SELECT * FROM :"schema".jobs`, `SELECT :"schema".enqueue_job('x')`, `SELECT :"schema".channel()`)
}
