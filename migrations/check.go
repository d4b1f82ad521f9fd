package migrations

import (
	"context"
	"fmt"
	"io/fs"
)

// Check says whether a schema is what this binary needs: nil, or an error that wraps ErrSchemaMissing, ErrSchemaOlder,
// ErrSchemaNewer or ErrDrift and tells what to do. schema "" means DefaultSchema. It only reads.
func Check(ctx context.Context, q Querier, schema string, triggers fs.FS) error {
	return check(ctx, q, schema, Files, triggers)
}

func check(ctx context.Context, q Querier, schema string, history, triggers fs.FS) error {
	files, err := readMigrations(history)
	if err != nil {
		return err
	}
	have, err := find(ctx, q, &schema)
	if err != nil {
		return err
	}
	if err := have.refuse(files); err != nil {
		return err
	}
	if have.at < len(files) {
		return older(have.at, len(files))
	}
	for _, f := range files {
		if row, ok := have.versions[f.version]; !ok || !row.done {
			return interrupted(f)
		}
	}
	if have.variant == "" {
		return &stateError{ErrSchemaOlder, `functions and triggers are not installed: run "notifyworker migrate"`}
	}
	// A variant that this binary does not have was installed by one that has.
	defs, err := readDefinitions(triggers, have.variant)
	if err != nil || defs.sum != have.definitions {
		return definitionsDiffer(have.variant)
	}
	return nil
}

// Variant tells which variant of the functions is installed. schema "" means DefaultSchema.
func Variant(ctx context.Context, q Querier, schema string) (string, error) {
	have, err := find(ctx, q, &schema)
	if err != nil {
		return "", err
	}
	if have.variant == "" {
		return "", missing(schema)
	}
	return have.variant, nil
}

// Version tells the number of the last migration that was applied, and the one that this binary needs. schema "" means
// DefaultSchema.
func Version(ctx context.Context, q Querier, schema string) (at, needed int, err error) {
	files, err := readMigrations(Files)
	if err != nil {
		return 0, 0, err
	}
	have, err := find(ctx, q, &schema)
	return have.at, len(files), err
}

// find reads the bookkeeping, or returns ErrSchemaMissing.
func find(ctx context.Context, q Querier, schema *string) (installed, error) {
	if *schema == "" {
		*schema = DefaultSchema
	}
	if err := ValidSchema(*schema); err != nil {
		return installed{}, err
	}
	var there bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'schema_definition')`, *schema).Scan(&there)
	if err != nil {
		return installed{}, fmt.Errorf("look for schema %q: %w", *schema, err)
	}
	if !there {
		return installed{}, missing(*schema)
	}
	return readState(ctx, q, *schema)
}
