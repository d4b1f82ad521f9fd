package migrations_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

func TestUpAppliesEachFileOnceInOrder(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c := d.Conn(t)
	wantUp(t, c, options(), everything)
	wantUp(t, c, options(), "")
	if n := value[int](t, c, "SELECT count(*) FROM notifyworker.jobs WHERE attempts = 0"); n != 1000 {
		t.Errorf("got %d jobs, want 1000", n)
	}
	if got := value[string](t, c, "SHOW search_path"); !strings.Contains(got, "public") {
		t.Errorf("the session's search_path was left as %s", got)
	}
	o := options()
	o.Migrations.(fstest.MapFS)["0004_more.sql"] = file(`CREATE TABLE :"schema".more ();`)
	// After a migration the triggers are installed again: it may have made a table anew.
	wantUp(t, c, o, "0004_more.sql triggers/10_channel.sql triggers/20_announce.sql")
	d.NoServerErrors(t)
}

func TestManyProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	var wg sync.WaitGroup
	var total atomic.Int64
	for range 10 {
		c := d.Conn(t)
		wg.Go(func() {
			applied, err := migrations.Up(t.Context(), c, options())
			if err != nil {
				t.Error(err)
			}
			total.Add(int64(len(applied)))
		})
	}
	wg.Wait()
	if total.Load() != 5 {
		t.Errorf("%d files were applied by all together, want 5", total.Load())
	}
	d.NoServerErrors(t)
}

func TestAnySchemaNameWillDo(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	for _, schema := range []string{"Price-Jobs", "select", `quo"ted name`, "ünïcode", strings.Repeat("x", 63), "public"} {
		o := migrations.Options{Schema: schema, Triggers: triggers.Files}
		if got := up(t, c, o); !strings.HasPrefix(got, "0001_") {
			t.Errorf("%q: got %q", schema, got)
		}
		wantUp(t, c, o, "")
		o.Variant = "cte"
		up(t, c, o)
		if err := migrations.Check(t.Context(), c, schema, triggers.Files); err != nil {
			t.Errorf("%q: %v", schema, err)
		}
		if v, err := migrations.Variant(t.Context(), c, schema); err != nil || v != "cte" {
			t.Errorf("%q: variant %q, %v", schema, v, err)
		}
		if at, needed, err := migrations.Version(t.Context(), c, schema); err != nil || at != needed || at == 0 {
			t.Errorf("%q: version %d of %d, %v", schema, at, needed, err)
		}
	}
	for _, schema := range []string{strings.Repeat("x", 64), "pg_mine", "a$$b", "it's", `back\slash`, "nul\x00", "\xff"} {
		if _, err := migrations.Up(t.Context(), c, migrations.Options{Schema: schema, Triggers: triggers.Files}); err == nil {
			t.Errorf("schema %q was taken", schema)
		}
	}
}

func TestABadFileLeavesNothingAndNoLock(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c := d.Conn(t)
	for name, bad := range map[string]string{
		"error":                                 "CREATE TABLE :\"schema\".half ();\nSELECT 1/0;",
		"syntax":                                "CREATE TABLE :\"schema\".half ();\nCREATE TABEL x ();",
		"begin in a file outside a transaction": "-- notifyworker: no-transaction\nBEGIN; SELECT 1/0;",
	} {
		o := options()
		o.Migrations.(fstest.MapFS)["0003_extra.sql"] = file(bad)
		applied, err := migrations.Up(t.Context(), c, o)
		if err == nil || !strings.Contains(err.Error(), "0003_extra.sql") {
			t.Fatalf("%s: got %v", name, err)
		}
		if name == "syntax" && !strings.Contains(err.Error(), "0003_extra.sql:2") {
			t.Errorf("the error does not name the line: %v", err)
		}
		t.Log(applied, err)
		if value[bool](t, c, "SELECT to_regclass('notifyworker.half') IS NOT NULL") {
			t.Errorf("%s: half a migration stayed", name)
		}
		if n := value[int](t, c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
			t.Errorf("%s: the migration lock was left behind", name)
		}
	}
	wantUp(t, c, options(), "0003_extra.sql triggers/10_channel.sql triggers/20_announce.sql")
}

func TestAFileMayNotEndItsTransaction(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	o := options()
	o.Migrations.(fstest.MapFS)["0003_extra.sql"] = file("SELECT 1; COMMIT;")
	if _, err := migrations.Up(t.Context(), c, o); err == nil || !strings.Contains(err.Error(), "neither COMMIT nor ROLLBACK") {
		t.Errorf("got %v", err)
	}
	wantUp(t, c, options(), "0003_extra.sql triggers/10_channel.sql triggers/20_announce.sql")
}

func TestFilesAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	for _, name := range []string{"0004_gap.sql", "0002_twice.sql", "3_short.sql", "extra.sql"} {
		o := options()
		o.Migrations = without(history(), "0003_extra.sql")
		o.Migrations.(fstest.MapFS)[name] = file("SELECT 1")
		if name == "0004_gap.sql" {
			o.Migrations.(fstest.MapFS)["0005_x.sql"] = file("SELECT 1")
		}
		if _, err := migrations.Up(t.Context(), c, o); err == nil || !strings.Contains(err.Error(), "without gaps") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestARoleWithoutRightsFindsNothingToDo(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	owner, c := d.Conn(t), d.Conn(t)
	up(t, owner, options())
	role := d.Name + "_reader"
	exec(t, owner, `CREATE ROLE `+role+`; GRANT USAGE ON SCHEMA notifyworker TO `+role+`; GRANT SELECT ON ALL TABLES IN SCHEMA notifyworker TO `+role)
	t.Cleanup(func() { cleanUp(owner, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	exec(t, c, "SET ROLE "+role)
	wantUp(t, c, options(), "")
	if err := migrations.CheckFiles(t.Context(), c, "", history(), definitions()); err != nil {
		t.Error(err)
	}
	o := options()
	o.Schema = "another"
	if _, err := migrations.Up(t.Context(), c, o); err == nil || errors.Is(err, migrations.ErrBlocked) {
		t.Errorf("a role without rights made a schema: %v", err)
	}
}
