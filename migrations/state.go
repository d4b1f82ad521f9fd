package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The bookkeeping lives in the product's own schema: what is dropped with it is forgotten with it.
const bookkeepingSQL = `
CREATE TABLE IF NOT EXISTS :"schema".schema_version (
    version     integer     PRIMARY KEY CHECK (version > 0),
    name        text        NOT NULL,
    checksum    text        NOT NULL,
    done        boolean     NOT NULL,
    duration_ms bigint      NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE  :"schema".schema_version IS 'migrations that were applied; written by "notifyworker migrate" alone';
COMMENT ON COLUMN :"schema".schema_version.version IS 'number of the file';
COMMENT ON COLUMN :"schema".schema_version.name IS 'name of the file';
COMMENT ON COLUMN :"schema".schema_version.checksum IS 'SHA-256 of the file, with line ends of Unix';
COMMENT ON COLUMN :"schema".schema_version.done IS 'false while, or after, a file that runs outside a transaction was interrupted';
COMMENT ON COLUMN :"schema".schema_version.duration_ms IS 'how long it ran';
COMMENT ON COLUMN :"schema".schema_version.applied_at IS 'when it was applied';

CREATE TABLE IF NOT EXISTS :"schema".schema_definition (
    only_row     boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    variant      text        NOT NULL,
    checksum     text        NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE  :"schema".schema_definition IS 'functions and triggers as they were last installed; one row';
COMMENT ON COLUMN :"schema".schema_definition.only_row IS 'keeps it at one row';
COMMENT ON COLUMN :"schema".schema_definition.variant IS 'variant of the functions: advisory, or cte';
COMMENT ON COLUMN :"schema".schema_definition.checksum IS 'SHA-256 over all files of the variant';
COMMENT ON COLUMN :"schema".schema_definition.installed_at IS 'when they were installed';

CREATE TABLE IF NOT EXISTS :"schema".schema_object (
    kind text NOT NULL CHECK (kind IN ('function', 'trigger')),
    name text NOT NULL,
    PRIMARY KEY (kind, name)
);
COMMENT ON TABLE  :"schema".schema_object IS 'functions and triggers that the last installation made, so that the next can drop what is no longer wanted';
COMMENT ON COLUMN :"schema".schema_object.kind IS 'function or trigger';
COMMENT ON COLUMN :"schema".schema_object.name IS 'name with argument types, or name and table';
`

// bookkeeping makes schema and tables where they are missing. It asks first: IF NOT EXISTS wants the right to create
// even when there is nothing to create, and a service may lack it.
func (r *runner) bookkeeping(ctx context.Context) error {
	var schema, tables bool
	err := r.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
		(SELECT count(*) = 3 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		  WHERE n.nspname = $1 AND c.relname IN ('schema_version', 'schema_definition', 'schema_object'))`, r.Schema).Scan(&schema, &tables)
	if err != nil || tables {
		return err
	}
	return r.transaction(ctx, "bookkeeping", func(tx pgx.Tx) error {
		sql := Render(bookkeepingSQL, r.Schema)
		if !schema {
			sql = Render(`CREATE SCHEMA :"schema";`, r.Schema) + sql
		}
		return run(ctx, r.conn, "bookkeeping", sql)
	})
}

// Querier reads; a pgx connection, pool or transaction is one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// installed is what the bookkeeping tells.
type installed struct {
	versions    map[int]versionRow
	at          int    // the highest version
	variant     string // "" when no definitions are installed yet
	definitions string // their checksum
}

type versionRow struct {
	name, sum string
	done      bool
}

func readState(ctx context.Context, q Querier, schema string) (installed, error) {
	have := installed{versions: map[int]versionRow{}}
	rows, err := q.Query(ctx, Render(`SELECT version, name, checksum, done FROM :"schema".schema_version`, schema))
	if err != nil {
		return have, fmt.Errorf("read the schema's version: %w", err)
	}
	var v int
	var r versionRow
	_, err = pgx.ForEachRow(rows, []any{&v, &r.name, &r.sum, &r.done}, func() error {
		have.versions[v] = r
		have.at = max(have.at, v)
		return nil
	})
	if err != nil {
		return have, fmt.Errorf("read the schema's version: %w", err)
	}
	err = q.QueryRow(ctx, Render(`SELECT coalesce(max(variant), ''), coalesce(max(checksum), '') FROM :"schema".schema_definition`, schema)).
		Scan(&have.variant, &have.definitions)
	if err != nil {
		return have, fmt.Errorf("read the schema's variant: %w", err)
	}
	return have, nil
}

// refuse says why this binary must not touch the schema.
func (have installed) refuse(files []migration) error {
	if have.at > len(files) {
		return newer(have.at, len(files))
	}
	for _, f := range files {
		if row, ok := have.versions[f.version]; ok && (row.sum != f.sum || row.name != f.name) && row.done {
			return edited(f, row.name, row.sum)
		}
	}
	return nil
}
