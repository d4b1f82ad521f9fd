package main

import (
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
)

func TestADatabaseURLMayNameSeveral(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:s3cr3t@h/a":                                       "h:5432/a",
		"  postgres://u:s3cr3t@h/a\n":                                   "h:5432/a",
		"postgres://u:s3cr3t@h1,h2:5433/a":                              "h1:5432/a",
		"host=h port=5433 user=u password='s3cr3t with blanks'":         "h:5433/u",
		"postgres://u:s3cr3t@h/a postgresql://u:s3cr3t@[::1]:7/b?x=y":   "h:5432/a [::1]:7/b",
		"postgres://h/a\n\tpostgres:///b?host=/run/pg&port=7\n":         "h:5432/a /run/pg:7/b",
		"postgres://h/a postgres://u:s3cr3t@h/a":                        "error: names h:5432/a twice",
		"postgres://u@h/a%0Ab postgres://u@h/a%ffb":                     "h:5432/a%0Ab h:5432/a%FFb",
		"postgres://u@h/n%C3%A9%20%25":                                  "h:5432/né %",
		"postgres://h/a,postgres://h/b":                                 "error: has a comma between URLs",
		"postgres://h/a host=h2 user=u password=s3cr3t postgres://h/c":  "error: not all of them by a URL",
		"host=h user=u password=s3cr3t postgres://u:s3cr3t@h/b":         "error: not all of them by a URL",
		"postgres://u:s3cr3t blank@h/a postgres://u:s3cr3t blank@h/b":   "error: not all of them by a URL",
		"postgres://h/a postgres://u:s3cr3t@h:x/b postgres://u@h:x/c":   "error: DATABASE_URL (number 3 of 3) can't be read",
		"postgres://u@h/a?sslmode=wrong postgres://u@h/b":               "error: DATABASE_URL (number 1 of 2) can't be read",
		"postgres://u:s3cr3t@h/a?host=%2Frun postgres://h/a?host=/run&": "error: names /run:5432/a twice",
	} {
		shards, err := (&database{DatabaseURL: []string{text}}).shards()
		var got []string
		for _, s := range shards {
			got = append(got, s.name)
		}
		wanted, fails := strings.CutPrefix(want, "error: ")
		switch {
		case fails && (err == nil || !strings.Contains(err.Error(), wanted)):
			t.Errorf("%q: error %v, want %q", text, err, wanted)
		case !fails && (err != nil || strings.Join(got, " ") != want):
			t.Errorf("%q: got %v and error %v, want %s", text, got, err, want)
		}
	}
	shards, err := (&database{DatabaseURL: []string{"postgres://h/a", "postgres://h/b postgres://h/c"}}).shards()
	if err != nil || len(shards) != 3 {
		t.Errorf("a flag that is repeated: %v, %v", shards, err)
	}
}

func TestAFileMayListItsDatabases(t *testing.T) {
	file := writeFile(t, "database_url:\n  - postgres://h/a\n  -\n  - postgres://h/b\nlisten_url: [postgres://l/a, postgres://l/b]\nengine: {recompute: none}\n")
	read, err := readConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", "")
	c, _ := model(t, read, "run")
	s, err := c.Run.check(read)
	if err != nil || len(s.shards) != 2 || s.shards[1].conn.Host != "h" || s.shards[1].listenConn.Host != "l" || s.shards[1].name != "h:5432/b" {
		t.Errorf("got %+v, %v", s.shards, err)
	}
	for text, want := range map[string]string{
		"database_url: [[a]]":     "line 1: database_url must be a single value",
		"database_url: {a: b}":    "line 1: database_url must be a single value",
		"schema: [a, b]":          "line 1: schema must be a single value",
		"listen_url: [a, {b: c}]": "line 1: listen_url must be a single value",
	} {
		_, _, stderr := notifyworker(t, nil, "run", "--config="+writeFile(t, text))
		wantAll(t, stderr, want)
	}
}

func TestListenersOfSeveralDatabasesAreAsMany(t *testing.T) {
	two := map[string]string{"DATABASE_URL": "postgres://u:s3cr3t@h/a postgres://u:s3cr3t@h/b"}
	code, _, stderr := notifyworker(t, two, "run", "--recompute=none", "--listen-url=postgres://u:s3cr3t@l/a")
	if code != exitUsage || strings.Contains(stderr, "s3cr3t") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	wantAll(t, stderr, "listen_url names 1 databases and DATABASE_URL 2: name as many, in the same order")
	code, _, stderr = notifyworker(t, two, "run", "--recompute=none", "--listen-url=postgres://l/a host=x password=s3cr3t")
	if code != exitUsage || strings.Contains(stderr, "s3cr3t") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestWhatIsForOneDatabaseSaysSo(t *testing.T) {
	two := map[string]string{"DATABASE_URL": "postgres://u:s3cr3t@h/a postgres://u:s3cr3t@h/b"}
	for _, args := range [][]string{
		{"enqueue", "--catalog=c", "--product=p"},
		{"refresh", "--catalog=c", "--full"},
		{"load", "-"},
		{"replay", "1"},
		{"cancel", "1"},
		{"purge", "--completed=7d"},
		{"demo", "--database-url=postgres://u:s3cr3t@h/a postgres://h/b"},
	} {
		code, stdout, stderr := notifyworker(t, two, args...)
		if code != exitUsage || stdout != "" || strings.Contains(stderr, "s3cr3t") {
			t.Errorf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
		wantAll(t, stderr, "say which by --database-url")
	}
}

func TestMigrateAndStatsGoThroughAllDatabases(t *testing.T) {
	a, b := pgtest.Empty(t), pgtest.Empty(t)
	env := map[string]string{"DATABASE_URL": a.URL + " " + b.URL}
	code, stdout, stderr := notifyworker(t, env, "migrate")
	if code != exitOK || strings.Count(stdout, "schema notifyworker is ready") != 2 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	wantAll(t, stdout, "/"+a.Name+"\n", "/"+b.Name+"\n")
	if code, stdout, _ = notifyworker(t, map[string]string{"DATABASE_URL": b.URL}, "enqueue", "--catalog=c", "--product=p"); code != exitOK {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout, _ = notifyworker(t, env, "stats")
	first, second, _ := strings.Cut(stdout, "/"+b.Name+"\n")
	if code != exitOK || !strings.Contains(first, "/"+a.Name+"\n") || strings.Contains(first, "PRICE_REFRESH") || !strings.Contains(second, "PRICE_REFRESH") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	env["DATABASE_URL"] = a.URL + " postgres://u@127.0.0.1:1/gone " + b.URL
	code, stdout, stderr = notifyworker(t, env, "migrate")
	if code != exitFailure || strings.Contains(stdout, b.Name) {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	wantAll(t, stdout+stderr, "up to date", "database 127.0.0.1:1/gone, number 2 of 3, after which none was touched: connect to database gone at 127.0.0.1:1")
	code, stdout, stderr = notifyworker(t, env, "stats")
	if code != exitFailure || !strings.Contains(stdout, "PRICE_REFRESH") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	wantAll(t, stderr, "database 127.0.0.1:1/gone: connect to")
}

// Databases number their jobs alike: a key that says nothing of the database would make one job of two.
func TestAnEndpointTellsTheJobsOfSeveralDatabasesApart(t *testing.T) {
	for text, want := range map[string]string{"postgres://h/a": "", "postgres://h/a postgres://h/b": "h:5432/a/"} {
		shards, err := (&database{DatabaseURL: []string{text}}).shards()
		if err != nil {
			t.Fatal(err)
		}
		c := workerSettings{shards: shards}.endpoint("http://e/", 0, shards[0])
		if c.KeyPrefix != want || c.Header.Get("Notifyworker-Database") != "h:5432/a" {
			t.Errorf("%s: got %+v", text, c)
		}
	}
}
