package migrations_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

func TestCheckTellsWhatToDo(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c := d.Conn(t)
	check := func(when string, history, definitions fstest.MapFS, kind error, text string) {
		t.Helper()
		err := migrations.CheckFiles(t.Context(), c, "", history, definitions)
		if !errors.Is(err, kind) || (err != nil && !strings.Contains(err.Error(), text)) {
			t.Errorf("%s: got %v, want %v with %q", when, err, kind, text)
		}
	}
	h, defs := history(), definitions()
	check("before", h, defs, migrations.ErrSchemaMissing, `schema "notifyworker" is not installed: run "notifyworker migrate"`)
	exec(t, c, "CREATE SCHEMA notifyworker")
	check("an empty schema", h, defs, migrations.ErrSchemaMissing, `run "notifyworker migrate"`)

	o := options()
	o.Migrations = without(h, "0003_extra.sql")
	up(t, c, o)
	check("older", h, defs, migrations.ErrSchemaOlder, `schema is at 2, this binary needs 3: run "notifyworker migrate"`)
	up(t, c, options())
	check("right", h, defs, nil, "")

	check("newer", without(h, "0003_extra.sql"), defs, migrations.ErrSchemaNewer, "schema is at 3, this binary knows 2: use a newer binary")
	if _, err := migrations.Up(t.Context(), c, o); !errors.Is(err, migrations.ErrSchemaNewer) {
		t.Errorf("migrate of an old binary: got %v, want ErrSchemaNewer", err)
	}

	other := definitions()
	other["10_channel.sql"] = file(`SELECT 1;`)
	check("other functions", h, other, migrations.ErrDrift, "are not this binary's")

	edited := history()
	edited["0001_jobs.sql"] = file("SELECT 1;")
	check("edited", edited, defs, migrations.ErrDrift, "applied files are never edited")
	o = options()
	o.Migrations = edited
	if _, err := migrations.Up(t.Context(), c, o); !errors.Is(err, migrations.ErrDrift) {
		t.Errorf("migrate with an edited file: got %v, want ErrDrift", err)
	}
	renamed := without(history(), "0001_jobs.sql")
	renamed["0001_renamed.sql"] = history()["0001_jobs.sql"]
	check("renamed", renamed, defs, migrations.ErrDrift, "0001_renamed.sql")

	o = options()
	o.Variant = "cte"
	up(t, c, o)
	check("a variant that is unknown here", h, without(defs, "cte/30_other.sql"), migrations.ErrDrift, "variant cte")
	if _, err := migrations.Variant(t.Context(), c, "elsewhere"); !errors.Is(err, migrations.ErrSchemaMissing) {
		t.Errorf("variant of nothing: got %v, want ErrSchemaMissing", err)
	}
	d.NoServerErrors(t)
}

func TestTheRealFilesInstall(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"advisory", "cte"} {
		d := pgtest.DB(t, pgtest.Variant(variant))
		c := d.Conn(t)
		if err := migrations.Check(t.Context(), c, d.Schema, triggers.Files); err != nil {
			t.Error(err)
		}
		// Each comment is somebody's help: our own tables have them too.
		bare := value[string](t, c, `SELECT coalesce(string_agg(c.relname || '.' || a.attname, ' '), '') FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
			WHERE c.relnamespace = 'notifyworker'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL
			AND c.relname LIKE 'schema\_%'`)
		if bare != "" {
			t.Errorf("columns without a comment: %s", bare)
		}
	}
}
