package migrations_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
)

const definitionsAlone = "triggers/10_channel.sql triggers/20_announce.sql"

func TestDefinitionsAreReinstalledWholeWhenOneChanges(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c := d.Conn(t)
	up(t, c, options())
	o := options()
	defs := o.Triggers.(fstest.MapFS)
	defs["20_announce.sql"] = file(announce + "\n-- said better")
	wantUp(t, c, o, definitionsAlone)
	wantUp(t, c, o, "")
	// Other line ends are no change.
	for n, f := range defs {
		defs[n] = file(strings.ReplaceAll(string(f.Data), "\n", "\r\n"))
	}
	wantUp(t, c, o, "")
	d.NoServerErrors(t)
}

func TestWhatNoFileDefinesAnyMoreIsDropped(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	up(t, c, options())
	// Somebody's own, in our schema: not ours to touch.
	exec(t, c, `CREATE FUNCTION notifyworker.their_check() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
		CREATE TRIGGER their_trigger BEFORE INSERT ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION notifyworker.their_check()`)
	o := options()
	o.Triggers = without(definitions(), "20_announce.sql")
	wantUp(t, c, o, "triggers/10_channel.sql")
	if got := functionsOf(t, c, "notifyworker"); got != "channel their_check" {
		t.Errorf("functions: got %q", got)
	}
	if got := triggersOf(t, c); got != "their_trigger" {
		t.Errorf("triggers: got %q", got)
	}
	up(t, c, options())
	if got := triggersOf(t, c); got != "jobs_announce their_trigger" {
		t.Errorf("triggers: got %q", got)
	}
}

func TestReplacingKeepsGrantedRights(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c := d.Conn(t)
	up(t, c, options())
	role := d.Name + "_api"
	exec(t, c, "CREATE ROLE "+role+"; REVOKE ALL ON FUNCTION notifyworker.channel() FROM PUBLIC; GRANT EXECUTE ON FUNCTION notifyworker.channel() TO "+role)
	t.Cleanup(func() { cleanUp(c, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	o := options()
	o.Triggers.(fstest.MapFS)["10_channel.sql"] = file(`CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS text LANGUAGE sql AS $$ SELECT 'new'::text $$;`)
	up(t, c, o)
	if !value[bool](t, c, "SELECT has_function_privilege($1, 'notifyworker.channel()', 'EXECUTE')", role) {
		t.Error("a granted right was lost")
	}
	if got := value[string](t, c, "SELECT notifyworker.channel()"); got != "new" {
		t.Errorf("got %q", got)
	}
}

func TestAFunctionMayChangeItsSignature(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	up(t, c, options())
	for name, text := range map[string]string{
		"result":        `CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;`,
		"argument":      `CREATE OR REPLACE FUNCTION :"schema".channel(a text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;`,
		"rename":        `CREATE OR REPLACE FUNCTION :"schema".channel(b text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$;`,
		"procedure":     `CREATE OR REPLACE PROCEDURE :"schema".channel() LANGUAGE sql AS $$ SELECT 1 $$;`,
		"no or replace": `CREATE FUNCTION :"schema".channel() RETURNS text LANGUAGE sql AS $$ SELECT 'x'::text $$;`,
		"two that depend": `CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS bigint LANGUAGE sql AS $$ SELECT 1::bigint $$;
			CREATE OR REPLACE FUNCTION :"schema".user_of_it() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT :"schema".channel(); END;`,
	} {
		o := options()
		o.Triggers.(fstest.MapFS)["10_channel.sql"] = file(text)
		up(t, c, o)
		if n := value[int](t, c, "SELECT count(*) FROM pg_proc WHERE proname = 'channel'"); n != 1 {
			t.Errorf("%s: %d functions of that name, want 1", name, n)
		}
		up(t, c, options())
		if got := functionsOf(t, c, "notifyworker"); got != "announce channel" {
			t.Errorf("after %s and back: functions are %q", name, got)
		}
	}
}

func TestALostTriggerIsInstalledAgain(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	up(t, c, options())
	exec(t, c, "DROP TRIGGER jobs_announce ON notifyworker.jobs")
	wantUp(t, c, options(), definitionsAlone)
	if got := triggersOf(t, c); got != "jobs_announce" {
		t.Errorf("triggers: got %q", got)
	}
}

func TestVariantsReplaceOneAnother(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	variant := func(want, channel, functions string) {
		t.Helper()
		got, err := migrations.Variant(t.Context(), c, "")
		if err != nil || got != want {
			t.Errorf("variant: got %q, %v, want %q", got, err, want)
		}
		if got := value[string](t, c, "SELECT notifyworker.channel()"); got != channel {
			t.Errorf("%s: channel() is %q, want %q", want, got, channel)
		}
		if got := functionsOf(t, c, "notifyworker"); got != functions {
			t.Errorf("%s: functions are %q, want %q", want, got, functions)
		}
	}
	o := options()
	up(t, c, o)
	variant("advisory", "notifyworker", "announce channel")
	o.Variant = "cte"
	wantUp(t, c, o, definitionsAlone+" triggers/cte/30_other.sql")
	variant("cte", "cte", "announce channel only_cte")
	o.Variant = "" // says nothing about it: stays as it is
	wantUp(t, c, o, "")
	variant("cte", "cte", "announce channel only_cte")
	o.Variant = "advisory"
	wantUp(t, c, o, definitionsAlone)
	variant("advisory", "notifyworker", "announce channel")
	for _, v := range []string{"none", "../x", ".", "*", "[", "cte/"} {
		o.Variant = v
		if _, err := migrations.Up(t.Context(), c, o); err == nil || !strings.Contains(err.Error(), "variant") {
			t.Errorf("variant %q: got %v", v, err)
		}
	}
}
