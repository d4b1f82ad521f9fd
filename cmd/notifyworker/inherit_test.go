package main

import (
	"fmt"
	"testing"

	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
)

// A password that only the environment has is the workers' too, or nobody works.
func TestTheWorkersOfDemoAndBenchConnectAsTheyDo(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{TCP: true})
	url := fmt.Sprintf("postgres://127.0.0.1:%d/postgres?sslmode=disable", s.Port())
	env := map[string]string{"PGUSER": "postgres", "PGPASSWORD": s.Password()}
	if code := start(t, map[string]string{"PGUSER": "postgres"}, "bench", "--database-url="+url, "--only=drain").code(); code != exitFailure {
		t.Fatalf("exit code %d without a password: the server takes anybody", code)
	}
	b := start(t, env, "bench", "--database-url="+url, "--short", "--rounds=1", "--duration=50ms", "--only=drain")
	if code := b.code(); code != exitOK {
		t.Errorf("bench: exit code %d", code)
	}
	d := start(t, env, "demo", "--database-url="+url, "--duration=1s")
	if code := d.code(); code != exitOK {
		t.Errorf("demo: exit code %d", code)
	}
	wantAll(t, d.out.String(), "all is right")
}

// What is meant for another database would lead the workers of a server of its own astray.
func TestTheWorkersOfADemoOnItsOwnServerDoNotHearOfOtherDatabases(t *testing.T) {
	env := demoEnvironment(t)
	env["PGAPPNAME"], env["PGSERVICE"], env["DATABASE_URL"], env["NOTIFYWORKER_SLOTS"] = "astray", "", "postgres://astray", "0"
	d := start(t, env, "demo", "--duration=1s")
	if code := d.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestAPasswordMayComeFromAPasswordFile(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{TCP: true})
	if code, _, _ := notifyworker(t, map[string]string{"DATABASE_URL": fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.Port())}, "migrate"); code != exitFailure {
		t.Fatalf("exit code %d without a password: the server takes anybody", code)
	}
	file := writeFile(t, fmt.Sprintf("127.0.0.1:%d:postgres:postgres:%s\n", s.Port(), s.Password()))
	env := map[string]string{"DATABASE_URL": fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.Port()), "PGPASSFILE": file}
	for _, command := range []string{"migrate", "stats"} {
		if code, _, stderr := notifyworker(t, env, command); code != exitOK {
			t.Errorf("%s: exit code %d: %s", command, code, stderr)
		}
	}
}
