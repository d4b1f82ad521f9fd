package docs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// house is a database with the roles of roles.sql. Roles belong to the whole server, so it has one of its own.
type house struct {
	t      *testing.T
	server *embedded.Server
	schema string
}

func newHouse(t *testing.T, schema string) house {
	h := house{t, pgtest.Server(t, embedded.Config{}), schema}
	admin := h.login("postgres")
	h.must(admin, read(t, "roles.sql"))
	h.must(admin, read(t, "roles.sql"))
	h.migrate()
	owner := h.login("notifyworker_owner")
	// What an earlier version's grants gave.
	h.must(owner, `GRANT SELECT (wants_notify, last_beat) ON :"schema".workers TO notifyworker_client`)
	h.must(owner, `GRANT EXECUTE ON FUNCTION :"schema".announce, :"schema".channel TO notifyworker_client`)
	h.must(owner, read(t, "grants.sql"))
	h.must(owner, read(t, "grants.sql"))
	h.must(admin, "CREATE ROLE api LOGIN; GRANT notifyworker_client TO api; CREATE ROLE support LOGIN; GRANT notifyworker_reader TO support; CREATE ROLE stranger LOGIN")
	h.must(admin, "CREATE TABLE orders (n integer); GRANT INSERT ON orders TO api")
	return h
}

func (h house) login(role string) *pgx.Conn {
	h.t.Helper()
	cfg, err := pgx.ParseConfig(h.server.SocketURL("postgres"))
	if err != nil {
		h.t.Fatal(err)
	}
	cfg.User = role
	conn, err := pgx.ConnectConfig(h.t.Context(), cfg)
	if err != nil {
		h.t.Fatalf("log in as %s: %v", role, err)
	}
	h.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (h house) migrate() {
	h.t.Helper()
	_, err := migrations.Up(h.t.Context(), h.login("notifyworker_owner"), migrations.Options{Schema: h.schema, Triggers: triggers.Files})
	if err != nil {
		h.t.Fatal(err)
	}
}

// exec runs SQL in which the schema is written as in the files.
func (h house) exec(conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(h.t.Context(), migrations.Render(sql, h.schema)).ReadAll()
	return err
}

func (h house) must(conn *pgx.Conn, sql string) {
	h.t.Helper()
	if err := h.exec(conn, sql); err != nil {
		h.t.Fatalf("%s: %v", firstLine(sql), err)
	}
}

// denied wants each statement to be refused for want of a right.
func (h house) denied(conn *pgx.Conn, statements ...string) {
	h.t.Helper()
	for _, s := range statements {
		err := h.exec(conn, s)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "42501" {
			h.t.Errorf("%s may do: %s (%v)", conn.Config().User, s, err)
		}
	}
}

// store is a Store of the worker's role.
func (h house) store(id string) *queue.Store {
	h.t.Helper()
	cfg, err := pgxpool.ParseConfig(h.server.SocketURL("postgres"))
	if err != nil {
		h.t.Fatal(err)
	}
	cfg.ConnConfig.User = "notifyworker_worker"
	pool, err := pgxpool.NewWithConfig(h.t.Context(), cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(pool.Close)
	s, err := queue.New(queue.Config{DB: pool, WorkerID: id, Schema: h.schema})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// What the page owns up to: a client that goes past the functions.
func TestAClientThatForgesAdditionsStopsNobody(t *testing.T) {
	h := newHouse(t, migrations.DefaultSchema)
	api, worker := h.login("api"), h.login("notifyworker_worker")
	h.must(api, `SELECT :"schema".enqueue_price_refresh('c', '["p1"]'), :"schema".enqueue_job('other')`)
	h.must(api, `INSERT INTO :"schema".job_additions (tenant_id, catalog_id, product_ids, marked, job_id) VALUES ('`+queue.DefaultTenant+`', 'forged', '["x"]', true, 1)`)
	h.must(api, `INSERT INTO :"schema".job_additions (tenant_id, catalog_id, product_ids, from_job_id) VALUES ('`+queue.DefaultTenant+`', 'c', '[{}]', 2)`)
	r, err := h.store("aaaaaaaa-0000-4000-8000-000000000001").Reserve(t.Context(), 10)
	if err != nil || len(r.Jobs) != 3 || r.Poisoned != nil {
		t.Fatalf("reserved %d jobs, reported %v, %v", len(r.Jobs), r.Poisoned, err)
	}
	var result string
	if err := worker.QueryRow(t.Context(), `SELECT result::text FROM notifyworker.jobs WHERE id = 2`).Scan(&result); err != nil || result != `{"mergedIntoJobId": 1}` {
		t.Errorf("the result is %s, %v: if a client can't do this any more, mend the page", result, err)
	}
}
