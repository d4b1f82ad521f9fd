package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

var servedAt = regexp.MustCompile(`url=(http://[0-9.:]+)`)

// pages waits until a worker serves, and returns where.
func (c *command) pages() string {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(c.t.Context(), 5*time.Millisecond) {
		if m := servedAt.FindStringSubmatch(c.out.String()); m != nil {
			return m[1]
		}
	}
	c.t.Fatalf("it serves nothing:\n%s", c.out)
	return ""
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// shows asks for a page until it has the status and all the words.
func shows(t *testing.T, url string, status int, words ...string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; pause(t.Context(), 20*time.Millisecond) {
		code, text := fetch(t, url)
		well := code == status
		for _, w := range words {
			well = well && strings.Contains(text, w)
		}
		if well {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: status %d, want %d with %q:\n%s", url, code, status, words, text)
		}
	}
}

// nameOf is what a worker calls a server's database in metrics.
func nameOf(t *testing.T, s *embedded.Server) string {
	t.Helper()
	c, err := parseURL("the test's", s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	return shortName(c)
}

func install(t *testing.T, s *embedded.Server) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // all is committed
	if _, err := migrations.Up(t.Context(), conn, migrations.Options{Schema: migrations.DefaultSchema, Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE FUNCTION echo(job_id bigint, config jsonb) RETURNS void LANGUAGE sql AS $$
		SELECT CASE WHEN config ? 'gate' THEN pg_advisory_xact_lock_shared((config ->> 'gate')::bigint) ELSE pg_sleep((config ->> 's')::float8) END $$`); err != nil {
		t.Fatal(err)
	}
}

// held is the config of a job that runs until its gate is open.
const held = `{"gate": 7}`

// closeGate closes the gate of a database's held jobs until open is called.
func closeGate(t *testing.T, conn *pgx.Conn) (open func()) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("SELECT pg_advisory_lock(7)")
	return func() { t.Helper(); exec("SELECT pg_advisory_unlock(7)") }
}

func TestAWorkerShowsWhatBecomesOfItsDatabase(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{})
	install(t, s)
	env := map[string]string{"DATABASE_URL": s.SocketURL("postgres")}
	w := start(t, env, "run", "--recompute=none", "--handler=echo=sql:echo", "--http=127.0.0.1:0")
	at, db := w.pages(), `{database="`+nameOf(t, s)+`"}`
	shows(t, at+"/readyz", http.StatusOK, "ready\n", "listening since")
	notifyworker(t, env, "enqueue", "--type=echo", `--job-config={"s": 0}`)
	shows(t, at+"/metrics", http.StatusOK, `outcome="completed",type="echo"} 1`, "notifyworker_job_wait_seconds_count"+db+" 1\n",
		"notifyworker_workers_alive"+db+" 1\n", "notifyworker_listener_connects_total"+db+" 1\n", "notifyworker_scrape_errors_total"+db+" ")

	admin, err := pgx.Connect(t.Context(), s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var ended bool
	if err := admin.QueryRow(t.Context(), `SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'notifyworker listen'`).Scan(&ended); err != nil || !ended {
		t.Fatalf("the listener's session is not to be found: %v", err)
	}
	shows(t, at+"/metrics", http.StatusOK, "notifyworker_listener_connects_total"+db+" 2\n", `state="listening"} 1`)

	if err := s.Halt(embedded.Fast); err != nil {
		t.Fatal(err)
	}
	shows(t, at+"/readyz", http.StatusServiceUnavailable, "not ready\n", "database_unreachable: ", "(since ")
	shows(t, at+"/livez", http.StatusOK, "live")
	shows(t, at+"/metrics", http.StatusOK, "notifyworker_ready"+db+" 0\n", "notifyworker_slots"+db+" 8\n")
	if err := s.Relaunch(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(t, at+"/readyz", http.StatusOK, "ready\n")

	if admin, err = pgx.Connect(t.Context(), s.SocketURL("postgres")); err != nil { // the other one ended with its server
		t.Fatal(err)
	}
	defer admin.Close(context.Background()) //nolint:errcheck // nothing hangs on it
	open := closeGate(t, admin)
	notifyworker(t, env, "enqueue", "--type=echo", "--job-config="+held)
	shows(t, at+"/metrics", http.StatusOK, "notifyworker_slots_busy"+db+" 1\n")
	w.signal(syscall.SIGTERM)
	shows(t, at+"/readyz", http.StatusServiceUnavailable, "draining: ")
	open()
	if code := w.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestAWorkerSaysWhichRightsItLacks(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{})
	install(t, s)
	admin, err := pgx.Connect(t.Context(), s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background()) //nolint:errcheck // nothing hangs on it
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`CREATE ROLE w LOGIN PASSWORD 'hidden'; GRANT USAGE ON SCHEMA notifyworker TO w; GRANT ALL ON ALL TABLES IN SCHEMA notifyworker TO w;
	      GRANT USAGE ON ALL SEQUENCES IN SCHEMA notifyworker TO w; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA notifyworker TO w`)
	cfg := admin.Config()
	env := map[string]string{"DATABASE_URL": fmt.Sprintf("host=%s port=%d dbname=postgres user=w password=hidden", cfg.Host, cfg.Port)}
	w := start(t, env, "run", "--recompute=none", "--http=127.0.0.1:0")
	at := w.pages()
	shows(t, at+"/readyz", http.StatusOK, "ready\n")
	exec("REVOKE UPDATE ON notifyworker.jobs FROM w")
	text := shows(t, at+"/readyz", http.StatusServiceUnavailable, "permission_denied: ", "jobs")
	if strings.Contains(text, "hidden") {
		t.Errorf("it tells the password: %s", text)
	}
	exec("GRANT UPDATE ON notifyworker.jobs TO w")
	shows(t, at+"/readyz", http.StatusOK, "ready\n")
}

func TestASecondWorkerOfTheMachineGoesOnWithoutItsPages(t *testing.T) {
	db := pgtest.DB(t)
	env := map[string]string{"DATABASE_URL": db.URL}
	first := start(t, env, "run", "--recompute=none", "--http=127.0.0.1:0")
	address := strings.TrimPrefix(first.pages(), "http://")
	second := start(t, env, "run", "--recompute=none", "--http="+address)
	until(t, db.Conn(t), "both workers register", "SELECT count(*) = 2 FROM notifyworker.workers")
	second.says("another process has the address")
	first.signal(syscall.SIGTERM)
	if code := first.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	second.pages() // it has the address now
	third := start(t, env, "run", "--recompute=none", "--http=192.0.2.1:9")
	until(t, db.Conn(t), "a worker that can't serve works", "SELECT count(*) = 2 FROM notifyworker.workers")
	third.says("going on without")
}

func TestAWorkerThatWaitsForItsDatabaseSaysSo(t *testing.T) {
	w := start(t, map[string]string{"DATABASE_URL": "postgres://u:hidden@127.0.0.1:1/db"}, "run", "--recompute=none", "--http=127.0.0.1:0")
	at := w.pages()
	text := shows(t, at+"/readyz", http.StatusServiceUnavailable, "starting: waiting for the database: connect to database db at 127.0.0.1:1 as u")
	if strings.Contains(text, "hidden") {
		t.Errorf("it tells the password: %s", text)
	}
	shows(t, at+"/livez", http.StatusOK, "live")
	w.signal(syscall.SIGTERM)
	w.code()
}

func TestPurgeRemovesWhatIsOld(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `INSERT INTO notifyworker.jobs (type, status, created_at, started_at, finished_at)
		SELECT 't', s, now() - age, now() - age, CASE WHEN s <> 'PENDING' THEN now() - age END
		  FROM unnest(ARRAY['PENDING', 'COMPLETED', 'FAILED']) s, unnest(ARRAY[interval '1 year', interval '1 hour']) age, generate_series(1, 5)`); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DATABASE_URL": db.URL}
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "say what is to be removed", nil},
		{exitUsage, "give an age such as 7d", []string{"--completed=soon"}},
		{exitUsage, "give 1m to 3650d", []string{"--completed=1s"}},
		{exitUsage, "give 1m to 3650d", []string{"--failed=0d"}},
		{exitUsage, "batch is", []string{"--completed=7d", "--batch=0"}},
		{exitOK, "10 jobs would be removed", []string{"--completed=7d", "--failed=90d", "--dry-run"}},
		{exitOK, "removed 5 jobs and 0 refreshes", []string{"--completed=7d", "--batch=2"}},
		{exitOK, "removed 0 jobs", []string{"--completed=7d", "--failed=3650d"}},
		{exitOK, "removed 5 jobs", []string{"--failed=36h"}},
	} {
		code, stdout, stderr := notifyworker(t, env, append([]string{"purge"}, tt.args...)...)
		if code != tt.code {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, code, tt.code, stderr)
		}
		wantAll(t, stdout+stderr, tt.want)
	}
	until(t, conn, "what waits stays", "SELECT count(*) = 10 FROM notifyworker.jobs WHERE status = 'PENDING'")
	until(t, conn, "what is young stays", "SELECT count(*) = 20 FROM notifyworker.jobs")
}
