package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/examples/pricing"
	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
)

// actAsCommand makes this test binary notifyworker itself, for tests that need a process to signal and to kill.
const actAsCommand = "TEST_BINARY_IS_NOTIFYWORKER"

func TestMain(m *testing.M) {
	if os.Getenv(actAsCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is a running notifyworker.
type command struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	out  *lockedBuffer
	done chan struct{}
	err  error // after done
}

// start runs notifyworker with standard input open until the test ends, or kill.
// asText has the log as people read it on a terminal.
const asText = "NOTIFYWORKER_LOG_FORMAT=text"

func start(t *testing.T, env map[string]string, args ...string) *command {
	t.Helper()
	c := &command{t: t, cmd: exec.Command(os.Args[0], args...), out: &lockedBuffer{}, done: make(chan struct{})}
	c.cmd.Env = append(embedded.Environ(os.Environ(), true), actAsCommand+"=1", asText)
	for name, value := range env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		c.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-c.done
		if t.Failed() {
			t.Logf("notifyworker %v printed:\n%s", args, c.out)
		}
	})
	return c
}

func (c *command) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// patience is how long a test waits for anything; two busy cores are slow.
const patience = 4 * time.Minute

// code waits for the end and returns the exit code, -1 for a process that a signal has ended.
func (c *command) code() int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.t.Fatalf("notifyworker still runs after %v", patience)
	}
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// says waits until the process has printed all the words: what it prints before it does something is read after that, perhaps.
func (c *command) says(words ...string) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; pause(c.t.Context(), 5*time.Millisecond) {
		missing := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(c.out.String(), w) })
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("it does not say %q", missing)
		}
	}
}

// until asks the database again and again until it says true.
func until(t *testing.T, conn *pgx.Conn, what, sql string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		var yes bool
		if err := conn.QueryRow(t.Context(), sql, args...).Scan(&yes); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		pause(t.Context(), 10*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

var pricingFlags = []string{"run", "--recompute=sql:pricing.recompute", "--article-function=pricing.article_of", "--products-function=pricing.products_of"}

func TestTwoWorkersRecomputeALoadWhileOneAfterTheOtherIsKilled(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	if err := pricing.Install(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DATABASE_URL": db.URL}
	flags := append(pricingFlags, "--lease=1s") // what a kill leaves behind is taken over soon
	workers := []*command{start(t, env, flags...), start(t, env, flags...)}
	until(t, conn, "both workers register", "SELECT count(*) = 2 FROM notifyworker.workers")
	load := start(t, env, "load", "--wait", "-")
	// It comes in parts, or it could be over before a worker has started anew.
	feed := func(part int) {
		var lines strings.Builder
		if part == 0 {
			lines.WriteString("published_at,update_id,catalog_id,product_id,unit_price\n")
		}
		for i := part * 300; i < (part+1)*300; i++ {
			for k := range 4 {
				fmt.Fprintf(&lines, "2024-01-01T00:00:00Z,u%d,c%d,%d%c,%d.25\n", i, i%3, 100+(i*7+k)%60, 'A'+k%2, i)
			}
		}
		if _, err := io.WriteString(load.in.(io.Writer), lines.String()); err != nil {
			t.Errorf("feed the load: %v", err)
		}
	}
	var done int
	for i := range 4 {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM notifyworker.refreshes WHERE status = 'DONE'").Scan(&done); err != nil {
			t.Fatal(err)
		}
		feed(i)
		until(t, conn, "more is recomputed", "SELECT count(*) > $1 FROM notifyworker.refreshes WHERE status = 'DONE'", done)
		workers[i%2].signal(syscall.SIGKILL)
		workers[i%2] = start(t, env, flags...)
	}
	feed(4)
	load.in.Close() //nolint:errcheck // its end is what the load sees
	if code := load.code(); code != exitOK {
		t.Fatalf("load ended with %d:\n%s", code, load.out)
	}
	wantAll(t, load.out.String(), "updates published  1500", "verdict            right", "0 mismatches")
	for _, w := range workers {
		w.signal(syscall.SIGTERM)
	}
	for _, w := range workers {
		if code := w.code(); code != exitOK {
			t.Errorf("a worker drained with exit code %d", code)
		}
		wantAll(t, w.out.String(), "starting", "stopped: nothing was left behind")
	}
	// What the kills provoke; and what one says who was starved for longer than its lease.
	db.NoServerErrors(t, "connection to client lost", "is lost: it is not active", "is past its first", "canceling statement")
}

func TestOtherJobsAreHandledBySQLFunctions(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `CREATE FUNCTION echo(job_id bigint, config jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_object('said', config -> 'say') $$`); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DATABASE_URL": db.URL, "NOTIFYWORKER_HANDLER": "echo=sql:echo", "NOTIFYWORKER_LOG_FORMAT": ""} // nobody reads along
	file := writeFile(t, "engine: {recompute: none}\nslots: 2\n")
	w := start(t, env, "run", "--config="+file)
	code, stdout, stderr := notifyworker(t, env, "enqueue", "--type=echo", `--job-config={"say": "é 9007199254740993"}`)
	if code != exitOK {
		t.Fatalf("%s%s", stdout, stderr)
	}
	notifyworker(t, env, "enqueue", "--type=unheard_of")
	until(t, conn, "the job is completed", `SELECT count(*) = 1 FROM notifyworker.jobs WHERE type = 'echo' AND status = 'COMPLETED' AND result ->> 'said' = 'é 9007199254740993'`)
	until(t, conn, "an unknown type fails", `SELECT count(*) = 1 FROM notifyworker.jobs WHERE type = 'unheard_of' AND status = 'FAILED' AND error LIKE '%unknown job type%'`)
	w.signal(syscall.SIGINT)
	if code := w.code(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(w.out.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
	until(t, conn, "the worker is gone from the table", "SELECT count(*) = 0 FROM notifyworker.workers")
}

// runningFor has a worker run a job that takes so long.
func runningFor(t *testing.T, seconds int) (*command, *pgx.Conn) {
	t.Helper()
	db := pgtest.DB(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`CREATE FUNCTION slow(job_id bigint, config jsonb) RETURNS void LANGUAGE sql AS $$ SELECT pg_sleep(%d) $$`, seconds)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"DATABASE_URL": db.URL}
	w := start(t, env, "run", "--recompute=none", "--handler=slow=sql:slow")
	notifyworker(t, env, "enqueue", "--type=slow")
	until(t, conn, "the job runs", "SELECT count(*) = 1 FROM notifyworker.jobs WHERE status = 'RUNNING'")
	return w, conn
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	w, _ := runningFor(t, 60)
	w.signal(syscall.SIGTERM)
	w.says("signal received")
	pause(t.Context(), 2*sameSignal)
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

// GNU timeout signals the process and then its group.
func TestASignalThatComesTwiceIsOne(t *testing.T) {
	w, conn := runningFor(t, 1)
	w.signal(syscall.SIGTERM)
	w.says("signal received")
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	until(t, conn, "the job is done", "SELECT status = 'COMPLETED' FROM notifyworker.jobs")
}

func TestAWorkerOfTheDemoEndsWithItsParent(t *testing.T) {
	db := pgtest.DB(t)
	w := start(t, map[string]string{"DATABASE_URL": db.URL}, "run", "--recompute=none", "--exit-with-parent")
	until(t, db.Conn(t), "the worker registers", "SELECT count(*) = 1 FROM notifyworker.workers")
	w.in.Close() //nolint:errcheck // what the system does when the parent is killed
	w.code()
}

func TestAMissingFunctionIsSaidAtTheStart(t *testing.T) {
	db := pgtest.DB(t)
	w := start(t, map[string]string{"DATABASE_URL": db.URL}, "run", "--recompute=sql:nowhere.f", "--article-function=no_article")
	if code := w.code(); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, w.out.String(), "nowhere.f", "no_article")
}
