package migrations_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"notifyworker/migrations"

	"github.com/jackc/pgx/v5"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// history and definitions are small ones that have every kind of file.
func history() fstest.MapFS {
	return fstest.MapFS{
		"0001_jobs.sql": file(`CREATE TABLE :"schema".jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text);
			INSERT INTO jobs (status) SELECT 'PENDING' FROM generate_series(1, 1000);`),
		"0002_index.sql": file("-- notifyworker: no-transaction\n" + `CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_status_idx ON :"schema".jobs (status);`),
		"0003_extra.sql": file(`ALTER TABLE :"schema".jobs ADD COLUMN attempts integer NOT NULL DEFAULT 0;`),
	}
}

const announce = `CREATE OR REPLACE FUNCTION :"schema".announce() RETURNS trigger LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN PERFORM pg_notify('jobs', :'schema'); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER jobs_announce AFTER INSERT ON :"schema".jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION :"schema".announce();`

func definitions() fstest.MapFS {
	return fstest.MapFS{
		"10_channel.sql":   file(`CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS text LANGUAGE sql AS $$ SELECT :'schema'::text $$;`),
		"20_announce.sql":  file(announce),
		"cte/30_other.sql": file(`CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS text LANGUAGE sql AS $$ SELECT 'cte'::text $$; CREATE OR REPLACE FUNCTION :"schema".only_cte() RETURNS int LANGUAGE sql AS 'SELECT 1';`),
	}
}

func options() migrations.Options {
	return migrations.Options{Migrations: history(), Triggers: definitions()}
}

const everything = "0001_jobs.sql 0002_index.sql 0003_extra.sql triggers/10_channel.sql triggers/20_announce.sql"

func up(t *testing.T, c *pgx.Conn, o migrations.Options) string {
	t.Helper()
	applied, err := migrations.Up(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(applied, " ")
}

func wantUp(t *testing.T, c *pgx.Conn, o migrations.Options, want string) {
	t.Helper()
	if got := up(t, c, o); got != want {
		t.Errorf("applied: got %q, want %q", got, want)
	}
}

func value[T any](t *testing.T, c *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func exec(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// functionsOf lists the functions of a schema.
func functionsOf(t *testing.T, c *pgx.Conn, schema string) string {
	t.Helper()
	return value[string](t, c, `SELECT coalesce(string_agg(proname, ' ' ORDER BY proname), '') FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = $1`, schema)
}

func triggersOf(t *testing.T, c *pgx.Conn) string {
	t.Helper()
	return value[string](t, c, `SELECT coalesce(string_agg(tgname, ' ' ORDER BY tgname), '') FROM pg_trigger WHERE NOT tgisinternal`)
}

// without copies a file system and leaves names out.
func without(m fstest.MapFS, names ...string) fstest.MapFS {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(n string, _ *fstest.MapFile) bool { return slices.Contains(names, n) })
	return m
}

// cleanUp runs a clean-up, after the test's context has ended.
func cleanUp(c *pgx.Conn, sql string) { _, _ = c.Exec(context.Background(), sql) }
