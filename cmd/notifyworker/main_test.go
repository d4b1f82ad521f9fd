package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// notifyworker runs the command in this process, with an environment that has nothing of the caller's in it.
func notifyworker(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return notifyworkerWithInput(t, env, "", args...)
}

func notifyworkerWithInput(t *testing.T, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "NOTIFYWORKER_") || strings.HasPrefix(name, "PG") || name == "DATABASE_URL" {
			os.Unsetenv(name)
			t.Cleanup(func() { os.Setenv(name, value) })
		}
	}
	t.Setenv("NOTIFYWORKER_LOG_FORMAT", "text")
	for name, value := range env {
		t.Setenv(name, value)
	}
	var out, err bytes.Buffer
	code = execute(args, strings.NewReader(stdin), &out, &err)
	for name := range env {
		os.Unsetenv(name)
	}
	return code, out.String(), err.String()
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("want %q in:\n%s", p, text)
		}
	}
}

func TestRunWithoutADatabaseSaysWhatToSetAndOffersTheDemo(t *testing.T) {
	code, stdout, stderr := notifyworker(t, nil, "run", "--recompute=none")
	if code != exitUsage || stdout != "" {
		t.Errorf("exit code %d, want %d; stdout %q", code, exitUsage, stdout)
	}
	wantAll(t, stderr, "DATABASE_URL is not set", "export DATABASE_URL='postgres://", "notifyworker demo")
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	file := writeFile(t, "slots: 0\ntypes:\n  csv_import: {url: 'ftp://x', max_attempts: none}\n  report: {}\n  PRICE_REFRESH: {url: 'http://x'}\n")
	code, _, stderr := notifyworker(t, map[string]string{"NOTIFYWORKER_LEASE": "1ms", "DATABASE_URL": "postgres://u@h/db"},
		"run", "--config", file, "--poll-interval=30", "--wake=shout", "--schema=pg_x", "--recompute=pricing.recompute",
		"--handler=x", "--handler=PRICE_REFRESH=sql:f", "--log-level=loud", "--chunk=1e9", "--drain-timeout=-1s")
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantAll(t, stderr, "slots is 0", "lease is 1ms", "give it a unit, such as 30s", `wake is "shout": give one of notify, poll`,
		`schema "pg_x"`, `recompute is "pricing.recompute": give sql:FUNCTION`, `handler is "x"`, "handler can't be for PRICE_REFRESH",
		`log_level is "loud"`, `chunk is "1e9"`, "drain_timeout is -1s", "types.csv_import.url", "types.csv_import.max_attempts",
		"types.report has neither", "types.PRICE_REFRESH takes no url")
}

func TestAnUnknownKeyOfTheFileIsRefusedWithAHint(t *testing.T) {
	file := writeFile(t, "slotz: 4\nengine:\n  chunks: 9\n  recompute: [a]\nschema: a\nschema: b\nentirely_different: 1\n")
	code, _, stderr := notifyworker(t, nil, "run", "--config="+file)
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantAll(t, stderr, file, "line 1: slotz is not a setting; did you mean slots?", "line 3: engine.chunks is not a setting; did you mean chunk?",
		"line 4: engine.recompute must be a single value", "line 6: schema is there twice", "entirely_different is not a setting; there are ")
	for text, want := range map[string]string{
		"a: [": "yaml", "- a\n- b\n": "list of keys", "": "DATABASE_URL", "# nothing\n": "DATABASE_URL", "slots: 2\n---\nslots: 3\n": "line 2: a second document",
		"slots: &a [*a]\n": "must be a single value", "types: &t {x: *t}\n": "types.x.x is not a setting", "slots: \"\\0\"\n": "slots is", "a: \xff\n": "yaml",
		"? [a]\n: b\n": "a key must be a word", "<<: {slots: 3}\n": "<< is not a setting",
	} {
		_, _, stderr := notifyworker(t, nil, "run", "--config="+writeFile(t, text), "--recompute=none")
		wantAll(t, stderr, want)
	}
	_, _, stderr = notifyworker(t, map[string]string{"NOTIFYWORKER_CONFIG": "/nowhere/x.yaml"}, "run")
	wantAll(t, stderr, "/nowhere/x.yaml")
}

func TestAFlagWinsOverTheEnvironmentOverTheFile(t *testing.T) {
	file := writeFile(t, "slots: 3\nlease: 3s\nmax_ids: 3\nengine:\n  chunk: 3\n  recompute: none\n")
	e := func(name string) string {
		_, _, stderr := notifyworker(t, map[string]string{"NOTIFYWORKER_CONFIG": file, "NOTIFYWORKER_LEASE": "20h", "NOTIFYWORKER_MAX_IDS": "", "NOTIFYWORKER_SLOTS": "20000"},
			"run", "--slots=30000")
		for line := range strings.Lines(stderr) {
			if strings.Contains(line, name) {
				return line
			}
		}
		return ""
	}
	wantAll(t, e("slots"), "slots is 30000")
	wantAll(t, e("lease"), "lease is 20h")
	if got := e("max_ids") + e("chunk") + e("recompute"); got != "" {
		t.Errorf("an empty variable or a value of the file was not taken: %s", got)
	}
}

func TestPasswordsAreNeverPrinted(t *testing.T) {
	for _, url := range []string{
		"postgres://ana:s3cr3t%21@127.0.0.1:1/db",
		"postgres://ana:s3cr3t!@127.0.0.1:notaport/db",
		"postgres://ana:s3cr3t/x@y@127.0.0.1:1/db",
		"postgres://ana:s3cr3t%zz@127.0.0.1:1/db",
		"postgres://ana:s3cr3t!@127.0.0.1:1/db?sslmode=wrong&options=a@b",
		"postgres://127.0.0.1:1/db?user=ana&password=s3cr3t!&connect_timeout=x",
		"host=127.0.0.1 port=x user=ana password=s3cr3t!",
		"host=127.0.0.1 port=1 user=ana password='s3cr3t!' sslmode=wrong",
		"host=127.0.0.1 port=1 user=ana password='s3cr3t! with a blank'",
		"user=ana password = s3cr3t! host",
	} {
		for _, args := range [][]string{{"run", "--recompute=none", "--start-timeout=0s"}, {"migrate"}, {"stats"}} {
			code, stdout, stderr := notifyworker(t, map[string]string{"DATABASE_URL": url, "PGPASSWORD": "s3cr3t-too"}, args...)
			if code == exitOK || strings.Contains(stdout+stderr, "s3cr3t") {
				t.Errorf("%s with %q: exit code %d, printed %s", args[0], url, code, stderr)
			}
			code, stdout, stderr = notifyworker(t, nil, append(args, "--database-url="+url)...)
			if code == exitOK || strings.Contains(stdout+stderr, "s3cr3t") {
				t.Errorf("%s --database-url with %q: exit code %d, printed %s", args[0], url, code, stderr)
			}
		}
	}
	file := writeFile(t, "database_url: postgres://ana:s3cr3t!@h:x/db\nengine: {recompute: 'htp://bob:s3cr3t2@h'}\n")
	_, _, stderr := notifyworker(t, nil, "run", "--config="+file, "--handler=a=ftp://u:s3cr3t3@h,b=ftp://u:s3cr3t4@h")
	if strings.Contains(stderr, "s3cr3t") {
		t.Errorf("printed %s", stderr)
	}
}

// A password that is also the user's name, or very short, must not blot out every other word.
func TestACommonPasswordIsCutOutWhereAPasswordStands(t *testing.T) {
	s := newSecrets(nil, []string{"postgres://postgres:postgres@h/postgres", "postgres://a:p@h/db"})
	got := s.clean("connect to postgres://postgres:postgres@h/postgres and postgres://a:p@h/db, password=p")
	if want := "connect to postgres://postgres:***@h/postgres and postgres://a:***@h/db, password=***"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestACommonPasswordOfTheEnvironmentLeavesTheOutputAlone(t *testing.T) {
	environ := []string{"PGUSER=worker", "PGDATABASE=prices", "PGHOST=db.internal", "DATABASE_URL=postgres://api@north:5433/shop", "USER=root1"}
	for _, password := range []string{"postgres", "notifyworker", "worker", "prices", "db.internal", "north", "shop", "root1", "1234", "12.5", "1e10", "true", "null"} {
		s := newSecrets(append(environ, "PGPASSWORD="+password, "PGSSLPASSWORD="+password), nil)
		text := `{"schema": "notifyworker", "database": "` + password + `", "id": 912345, "ms": 12.53, "n": 1e100, "paused": true, "error": null}`
		if got := s.clean(text); got != text {
			t.Errorf("with password %s %s becomes %s", password, text, got)
		}
		if got, want := s.clean("password="+password+" postgres://u:"+password+"@h/d password = '"+password+"' sslpassword="+password), "password=*** postgres://u:***@h/d password =*** sslpassword=***"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := newSecrets([]string{"PGPASSWORD=s3cr3t"}, nil).clean("it is s3cr3t"); got != "it is ***" {
		t.Errorf("got %q", got)
	}
	if got := newSecrets(nil, []string{"postgres://u:12345@h/db"}).clean(`{"id": 9123450}`); got != `{"id": 9123450}` {
		t.Errorf("a number of a URL makes %s", got)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"run", "--help"}} {
		code, stdout, stderr := notifyworker(t, nil, args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
		wantAll(t, stdout, "Usage: notifyworker")
	}
	code, stdout, _ := notifyworker(t, nil, "version")
	if code != exitOK || !strings.HasPrefix(stdout, "notifyworker ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	code, _, stderr := notifyworker(t, nil, "rnu")
	if code != exitUsage {
		t.Errorf("exit code %d of an unknown command, %s", code, stderr)
	}
}

// The query of an endpoint's URL may be a token, which no list of passwords knows.
func TestNoQueryOfAnEndpointIsPrinted(t *testing.T) {
	env := map[string]string{"DATABASE_URL": "postgres://u@127.0.0.1:1/x"}
	for want, args := range map[string][]string{
		"recompute=http://127.0.0.1:1/prices": {"--recompute=http://u:pass77@127.0.0.1:1/prices?token=secret77", "--handler=report=http://127.0.0.1:1/?token=secret77"},
		`recompute is "htp://127.0.0.1/?…"`:   {"--recompute=htp://127.0.0.1/?token=secret77"},
		`handler is "http://127.0.0.1/?…"`:    {"--recompute=none", "--handler=http://127.0.0.1/?token=secret77"},
		`handler of report is "http://[/?…"`:  {"--recompute=none", "--handler=report=http://[/?token=secret77"},
	} {
		code, stdout, stderr := notifyworker(t, env, append([]string{"run", "--http=off", "--start-timeout=0s"}, args...)...)
		if code == exitOK || strings.Contains(stdout+stderr, "secret77") || strings.Contains(stdout+stderr, "pass77") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
		wantAll(t, stderr, want)
	}
}
