package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"notifyworker/examples/pricing"
	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
)

// admin is a connection to a server's database, which the test does not need after it has halted the server.
func admin(t *testing.T, s *embedded.Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) }) //nolint:errcheck // nothing hangs on it
	return conn
}

const (
	completed = "SELECT count(*) = $1 FROM notifyworker.jobs WHERE type = 'echo' AND status = 'COMPLETED'"
	// Its handler waits at the gate. (A job that a commit has handed over is RUNNING before it starts.)
	running = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND objsubid = 1 AND NOT granted"
)

func TestOneProcessWorksTwoServersOfWhichOneGoesAndComesBack(t *testing.T) {
	a, b := pgtest.Server(t, embedded.Config{}), pgtest.Server(t, embedded.Config{})
	install(t, a)
	install(t, b)
	nameA, nameB := nameOf(t, a), nameOf(t, b)
	both := map[string]string{"DATABASE_URL": a.SocketURL("postgres") + "\n" + b.SocketURL("postgres")}
	enqueue := func(s *embedded.Server, config string) {
		t.Helper()
		if code, _, stderr := notifyworker(t, map[string]string{"DATABASE_URL": s.SocketURL("postgres")}, "enqueue", "--type=echo", "--job-config="+config); code != exitOK {
			t.Fatal(stderr)
		}
	}
	w := start(t, both, "run", "--recompute=none", "--handler=echo=sql:echo", "--http=127.0.0.1:0")
	at := w.pages()
	shows(t, at+"/readyz", http.StatusOK, "ready\n", nameA+": listener: listening since", nameB+": listener: listening since")
	onA := admin(t, a)
	enqueue(a, `{"s": 0}`)
	enqueue(b, `{"s": 0}`)
	until(t, onA, "the job of the first is completed", completed, 1)
	until(t, admin(t, b), "the job of the second is completed", completed, 1)

	if err := b.Halt(embedded.Fast); err != nil {
		t.Fatal(err)
	}
	text := shows(t, at+"/readyz", http.StatusServiceUnavailable, "not ready\n", nameB+": database_unreachable: ", nameA+": listener: listening since")
	if strings.Contains(text, nameA+": database") {
		t.Errorf("the wrong one is blamed: %s", text)
	}
	shows(t, at+"/livez", http.StatusOK, "live\n")
	enqueue(a, `{"s": 0}`)
	until(t, onA, "the others' jobs go on", completed, 2)
	shows(t, at+"/metrics", http.StatusOK, `notifyworker_ready{database="`+nameA+`"} 1`, `notifyworker_ready{database="`+nameB+`"} 0`,
		`notifyworker_workers_alive{database="`+nameA+`"} 1`, `notifyworker_slots{database="`+nameB+`"} 8`)

	if err := b.Relaunch(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(t, at+"/readyz", http.StatusOK, "ready\n")
	onB := admin(t, b)
	enqueue(b, `{"s": 0}`)
	until(t, onB, "it is worked again", completed, 2)

	openA, openB := closeGate(t, onA), closeGate(t, onB)
	enqueue(a, held)
	enqueue(b, held)
	until(t, onA, "a job runs", running)
	until(t, onB, "a job runs", running)
	w.signal(syscall.SIGTERM)
	w.says("draining database="+nameA, "draining database="+nameB)
	openA()
	openB()
	if code := w.code(); code != exitOK {
		t.Errorf("drained with exit code %d", code)
	}
	until(t, onA, "the drain has let it end", completed, 3)
	until(t, onB, "the drain has let it end", completed, 3)
	wantAll(t, w.out.String(), "database="+nameA, "database="+nameB, "nothing was left behind")
}

func TestADatabaseThatHangsHoldsUpNeitherTheOthersNorTheirDrain(t *testing.T) {
	a, b := pgtest.Server(t, embedded.Config{}), pgtest.Server(t, embedded.Config{})
	install(t, a)
	install(t, b)
	nameA, nameB := nameOf(t, a), nameOf(t, b)
	w := start(t, map[string]string{"DATABASE_URL": a.SocketURL("postgres") + " " + b.SocketURL("postgres")},
		"run", "--recompute=none", "--handler=echo=sql:echo", "--http=127.0.0.1:0", "--drain-timeout=10s")
	at := w.pages()
	shows(t, at+"/readyz", http.StatusOK, "ready\n")
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Resume() }) //nolint:errcheck // it is stopped next
	onA := admin(t, a)
	enqueue := func(config string) {
		t.Helper()
		if _, err := onA.Exec(t.Context(), "SELECT notifyworker.enqueue_job('echo', $1::jsonb)", config); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(`{"s": 0}`)
	until(t, onA, "the other one's job is completed", completed, 1)
	shows(t, at+"/readyz", http.StatusServiceUnavailable, nameB+": database_unreachable: ", nameA+": listener: listening since")
	shows(t, at+"/metrics", http.StatusOK, `notifyworker_workers_alive{database="`+nameA+`"} 1`, `notifyworker_ready{database="`+nameB+`"} 0`)
	open := closeGate(t, onA)
	enqueue(held)
	until(t, onA, "a job runs", running)
	w.signal(syscall.SIGTERM)
	w.says("draining database=" + nameA)
	open()
	w.code()
	until(t, onA, "the drain has let it end", completed, 2)
	until(t, onA, "the worker is gone from the table", "SELECT count(*) = 0 FROM notifyworker.workers")
}

func TestAFloodInOneDatabaseTakesNoSlotOfAnother(t *testing.T) {
	flooded, quiet := pgtest.DB(t), pgtest.DB(t)
	for _, db := range []*pgtest.Database{flooded, quiet} {
		if _, err := db.Conn(t).Exec(t.Context(), `CREATE FUNCTION echo(job_id bigint, config jsonb) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep((config ->> ''s'')::float8)'`); err != nil {
			t.Fatal(err)
		}
	}
	onFlooded, onQuiet := flooded.Conn(t), quiet.Conn(t)
	if _, err := onFlooded.Exec(t.Context(), `SELECT notifyworker.enqueue_job('echo', '{"s": 60}') FROM generate_series(1, 50)`); err != nil {
		t.Fatal(err)
	}
	w := start(t, map[string]string{"DATABASE_URL": flooded.URL + " " + quiet.URL}, "run", "--recompute=none", "--handler=echo=sql:echo", "--http=off", "--slots=2", "--drain-timeout=0s")
	until(t, onFlooded, "all slots of the flooded one are taken", "SELECT count(*) = 2 FROM notifyworker.jobs WHERE status = 'RUNNING'")
	if _, err := onQuiet.Exec(t.Context(), `SELECT notifyworker.enqueue_job('echo', '{"s": 0}') FROM generate_series(1, 10)`); err != nil {
		t.Fatal(err)
	}
	until(t, onQuiet, "the quiet one's jobs are completed", completed, 10)
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	until(t, onFlooded, "what ran waits again", "SELECT count(*) = 50 FROM notifyworker.jobs WHERE status = 'PENDING'")
}

func TestADatabaseThatCantBeWorkedKeepsTheOthersFromNothing(t *testing.T) {
	well, missing := pgtest.DB(t), pgtest.Empty(t)
	env := map[string]string{"DATABASE_URL": missing.URL + " " + well.URL + " postgres://u:hidden@127.0.0.1:1/gone"}
	w := start(t, env, "run", "--recompute=none", "--http=127.0.0.1:0", "--start-timeout=1s")
	at := w.pages()
	until(t, well.Conn(t), "the one that is well is worked", "SELECT count(*) = 1 FROM notifyworker.workers")
	shows(t, at+"/readyz", http.StatusServiceUnavailable, "/"+missing.Name+`: starting: waiting for the database: `, `run "notifyworker migrate"`, "127.0.0.1:1/gone: starting: ")
	if code, _, stderr := notifyworker(t, map[string]string{"DATABASE_URL": missing.URL}, "migrate"); code != exitOK {
		t.Fatal(stderr)
	}
	until(t, missing.Conn(t), "it is worked as soon as it can be", "SELECT count(*) = 1 FROM notifyworker.workers")
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, w.out.String(), "this database can't be worked; the others go on")
}

func TestAProcessEndsWhenNoneOfItsDatabasesCanBeWorked(t *testing.T) {
	missing := pgtest.Empty(t)
	env := map[string]string{"DATABASE_URL": missing.URL + " postgres://u:hidden@127.0.0.1:1/gone"}
	w := start(t, env, "run", "--recompute=none", "--http=off", "--start-timeout=0s")
	if code := w.code(); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, w.out.String(), "/"+missing.Name+": ", `run "notifyworker migrate"`, "database 127.0.0.1:1/gone: connect to database gone")
}

// Each server has half of the sample; the prices of each are right in the end, and no job was worked twice.
func TestTwoWorkersRecomputeTheHalvesOfALoadOnTwoServers(t *testing.T) {
	halves := [2]bytes.Buffer{}
	for i, line := range bytes.SplitAfter(pricing.SampleTariffs(), []byte("\n")) {
		if i == 0 {
			halves[0].Write(line)
			halves[1].Write(line)
			continue
		}
		halves[i*2/bytes.Count(pricing.SampleTariffs(), []byte("\n"))%2].Write(line)
	}
	both := map[string]string{}
	var conns [2]*pgx.Conn
	var urls [2]string
	for i := range 2 {
		s := pgtest.Server(t, embedded.Config{})
		install(t, s)
		conns[i], urls[i] = admin(t, s), s.SocketURL("postgres")
		if err := pricing.Install(t.Context(), conns[i]); err != nil {
			t.Fatal(err)
		}
		both["DATABASE_URL"] += " " + urls[i]
	}
	flags := append(pricingFlags, "--handler=echo=sql:echo", "--http=off")
	workers := []*command{start(t, both, flags...), start(t, both, flags...)}
	for i := range 2 {
		until(t, conns[i], "both workers register", "SELECT count(*) = 2 FROM notifyworker.workers")
		if _, err := conns[i].Exec(t.Context(), `SELECT notifyworker.enqueue_job('echo', '{"s": 0}') FROM generate_series(1, 100)`); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		file := filepath.Join(t.TempDir(), "half.csv")
		if err := os.WriteFile(file, halves[i].Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := notifyworker(t, map[string]string{"DATABASE_URL": urls[i]}, "load", "--wait", file)
		if code != exitOK {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		wantAll(t, stdout, "verdict            right", "0 mismatches")
		until(t, conns[i], "each job is worked", completed, 100)
		var again int
		if err := conns[i].QueryRow(t.Context(), "SELECT count(*) FROM notifyworker.jobs WHERE type = 'echo' AND attempts <> 1").Scan(&again); err != nil || again != 0 {
			t.Errorf("%d jobs were worked more than once: %v", again, err)
		}
	}
	for _, w := range workers {
		w.signal(syscall.SIGTERM)
	}
	for _, w := range workers {
		if code := w.code(); code != exitOK {
			t.Errorf("a worker drained with exit code %d", code)
		}
	}
}
