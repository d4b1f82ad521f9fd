package migrations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// object is a function or trigger of the schema.
type object struct {
	kind, name string
	stamp      string // changes when it is replaced
	target     string // how DROP names it
}

type objectKey struct{ kind, name string }

// objects lists all functions and triggers of the schema but those of extensions. The search_path is the schema's, so
// that type names read the same each time.
func (r *runner) objects(ctx context.Context) (map[objectKey]object, error) {
	rows, err := r.conn.Query(ctx, `
		SELECT 'function', p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', p.xmin::text || p.ctid::text,
		       format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
		  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		 WHERE n.nspname = $1 AND p.prokind IN ('f', 'p')
		   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
		UNION ALL
		SELECT 'trigger', t.tgname || ' ON ' || c.relname, t.xmin::text || t.ctid::text, format('%I ON %I.%I', t.tgname, n.nspname, c.relname)
		  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE n.nspname = $1 AND NOT t.tgisinternal AND t.tgparentid = 0`, r.Schema)
	if err != nil {
		return nil, fmt.Errorf("list functions and triggers: %w", err)
	}
	out := map[objectKey]object{}
	var o object
	_, err = pgx.ForEachRow(rows, []any{&o.kind, &o.name, &o.stamp, &o.target}, func() error {
		out[objectKey{o.kind, o.name}] = o
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list functions and triggers: %w", err)
	}
	return out, nil
}

// ours lists what the last installation made.
func (r *runner) ours(ctx context.Context) (map[objectKey]bool, error) {
	rows, err := r.conn.Query(ctx, Render(`SELECT kind, name FROM :"schema".schema_object`, r.Schema))
	if err != nil {
		return nil, fmt.Errorf("list our functions and triggers: %w", err)
	}
	out := map[objectKey]bool{}
	var k objectKey
	if _, err = pgx.ForEachRow(rows, []any{&k.kind, &k.name}, func() error { out[k] = true; return nil }); err != nil {
		return nil, fmt.Errorf("list our functions and triggers: %w", err)
	}
	return out, nil
}

// definitionsWhole says whether all is still there that the last installation made: a restored dump or a hand may have
// lost a trigger.
func (r *runner) definitionsWhole(ctx context.Context) (whole bool, err error) {
	err = pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, Render(`SET LOCAL search_path = :"schema", pg_temp`, r.Schema)); err != nil {
			return err
		}
		mine, err := r.ours(ctx)
		if err != nil {
			return err
		}
		there, err := r.objects(ctx)
		if err != nil {
			return err
		}
		whole = true
		for k := range mine {
			_, ok := there[k]
			whole = whole && ok
		}
		return nil
	})
	return whole, err
}

// define installs all functions and triggers in one transaction: nobody ever sees half of them.
//
// Functions are replaced in place, which keeps the rights that were granted on them and what depends on them; they are
// dropped first only when PostgreSQL can't replace one (another result, another parameter's name). Triggers have no rights
// and are always made anew. What the last installation made and this one has not touched is dropped.
func (r *runner) define(ctx context.Context, d definitions) error {
	return r.transaction(ctx, "functions and triggers", func(tx pgx.Tx) error {
		mine, err := r.ours(ctx)
		if err != nil {
			return err
		}
		before, err := r.objects(ctx)
		if err != nil {
			return err
		}
		isOurs := func(kind string) func(object) bool {
			return func(o object) bool { return o.kind == kind && mine[objectKey{o.kind, o.name}] }
		}
		if err := r.lockTables(ctx, tx); err != nil {
			return err
		}
		if err := drop(ctx, tx, before, isOurs("trigger")); err != nil {
			return err
		}
		if err := r.runAll(ctx, tx, d, func() error { return drop(ctx, tx, before, isOurs("function")) }); err != nil {
			return err
		}
		after, err := r.objects(ctx)
		if err != nil {
			return err
		}
		untouched := func(o object) bool { return before[objectKey{o.kind, o.name}].stamp == o.stamp }
		gone := func(o object) bool { return mine[objectKey{o.kind, o.name}] && untouched(o) }
		if err := drop(ctx, tx, after, func(o object) bool { return o.kind == "function" && gone(o) }); err != nil {
			return err
		}
		var kinds, names []string
		for k, o := range after {
			_, was := before[k]
			if (!was || mine[k]) && !gone(o) {
				kinds, names = append(kinds, k.kind), append(names, k.name)
			}
		}
		return r.writeDefinitions(ctx, tx, d, kinds, names)
	})
}

// lockTables locks all tables that have triggers, in the order in which they were made, which is that in which reservations
// and enqueues reach them: jobs, then what joins a job. In another order each of those that is under way would wait for us
// and we for it; and one by one, as triggers are made, those that come in between.
func (r *runner) lockTables(ctx context.Context, tx pgx.Tx) error {
	var tables string
	err := tx.QueryRow(ctx, `SELECT coalesce(string_agg(format('%I.%I', n.nspname, c.relname), ', ' ORDER BY c.oid), '')
		  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		 WHERE n.nspname = $1 AND c.relkind = 'r' AND EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)`, r.Schema).Scan(&tables)
	if err != nil || tables == "" {
		return err
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE "+tables+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		return fmt.Errorf("lock the tables whose triggers are made anew: %w", err)
	}
	return nil
}

// runAll runs the files; if a function can't be replaced, it runs them again after makeRoom.
func (r *runner) runAll(ctx context.Context, tx pgx.Tx, d definitions, makeRoom func() error) error {
	files := func() error {
		for _, f := range d.files {
			if err := runInside(ctx, r.conn, "triggers/"+f.name, Render(f.sql, r.Schema)); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := tx.Exec(ctx, "SAVEPOINT definitions"); err != nil {
		return err
	}
	err := files()
	switch state(err) {
	case invalidFunctionDefinition, duplicateFunction, wrongObjectType:
	default:
		return err
	}
	if _, err := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT definitions"); err != nil {
		return err
	}
	if err := makeRoom(); err != nil {
		return err
	}
	return files()
}

// drop drops what matches. Functions go in one statement: some may depend on others.
func drop(ctx context.Context, tx pgx.Tx, all map[objectKey]object, match func(object) bool) error {
	var functions []string
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b objectKey) int { return strings.Compare(a.kind+a.name, b.kind+b.name) }) {
		o := all[k]
		if !match(o) {
			continue
		}
		if o.kind == "function" {
			functions = append(functions, o.target)
			continue
		}
		if _, err := tx.Exec(ctx, "DROP TRIGGER "+o.target); err != nil {
			return fmt.Errorf("drop trigger %s: %w", o.name, err)
		}
	}
	if len(functions) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, "DROP ROUTINE "+strings.Join(functions, ", ")); err != nil {
		return fmt.Errorf("drop functions: %w", err)
	}
	return nil
}

func (r *runner) writeDefinitions(ctx context.Context, tx pgx.Tx, d definitions, kinds, names []string) error {
	if _, err := tx.Exec(ctx, Render(`DELETE FROM :"schema".schema_object`, r.Schema)); err != nil {
		return fmt.Errorf("write functions and triggers down: %w", err)
	}
	if _, err := tx.Exec(ctx, Render(`INSERT INTO :"schema".schema_object (kind, name) SELECT * FROM unnest($1::text[], $2::text[])`, r.Schema), kinds, names); err != nil {
		return fmt.Errorf("write functions and triggers down: %w", err)
	}
	_, err := tx.Exec(ctx, Render(`INSERT INTO :"schema".schema_definition (variant, checksum) VALUES ($1, $2)
		ON CONFLICT (only_row) DO UPDATE SET variant = excluded.variant, checksum = excluded.checksum, installed_at = now()`, r.Schema), d.variant, d.sum)
	if err != nil {
		return fmt.Errorf("write the variant down: %w", err)
	}
	return nil
}
