package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"notifyworker/internal/embedded"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
)

func TestDatabasesAreIsolated(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := DB(t)
			c := d.Conn(t)
			if _, err := c.Exec(t.Context(), "LISTEN same"); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Pool(t).Exec(t.Context(), "SELECT pg_notify('same', $1)", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			n, err := c.WaitForNotification(t.Context())
			if err != nil || n.Payload != fmt.Sprint(i) {
				t.Fatal(n, err)
			}
			d.NoServerErrors(t)
		})
	}
}

func TestTemplatesAreMigratedAsAsked(t *testing.T) {
	for _, c := range []struct{ schema, variant string }{{"notifyworker", ""}, {"Other-One", ""}, {"notifyworker", "cte"}} {
		d := DB(t, Schema(c.schema), Variant(c.variant))
		conn := d.Conn(t)
		if err := migrations.Check(t.Context(), conn, c.schema, triggers.Files); err != nil || d.Schema != c.schema {
			t.Errorf("%+v: %v", c, err)
		}
		v, err := migrations.Variant(t.Context(), conn, c.schema)
		if want := max(c.variant, migrations.DefaultVariant); err != nil || v != want {
			t.Errorf("%+v: variant %s, %v, want %s", c, v, err, want)
		}
	}
	var schemas int
	err := Empty(t).Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'notifyworker'").Scan(&schemas)
	if err != nil || schemas != 0 {
		t.Errorf("an empty database has our schema: %d, %v", schemas, err)
	}
}

func TestWaitBlocked(t *testing.T) {
	d := Empty(t)
	holder, waiter := d.Conn(t), d.Conn(t)
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.Background(), "SELECT pg_advisory_lock(1)")
		done <- err
	}()
	WaitBlocked(t, holder, waiter.PgConn().PID())
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestServerIsOnesOwn(t *testing.T) {
	s := Server(t, embedded.Config{TCP: true})
	c, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var others int
	err = c.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'nwtest%'").Scan(&others)
	if err != nil || others != 0 {
		t.Errorf("%d test databases on a server of one's own, %v", others, err)
	}
}

func TestErrorLines(t *testing.T) {
	const log = `2026-01-01 00:00:00.000 UTC [1] <> LOG:  starting
2026-01-01 00:00:00.000 UTC [2] <mine> ERROR:  division by zero
2026-01-01 00:00:00.000 UTC [2] <mine> STATEMENT:  SELECT 1
	  / 0
2026-01-01 00:00:00.000 UTC [3] <other> ERROR:  not ours
2026-01-01 00:00:00.000 UTC [3] <other> DETAIL:  not ours
2026-01-01 00:00:00.000 UTC [2] <mine> WARNING:  a FATAL: no
2026-01-01 00:00:00.000 UTC [2] <mine> FATAL:  terminating
`
	got := errorLines(log, "mine")
	want := []string{"ERROR:  division by zero\n\tSTATEMENT:  SELECT 1\n\t/ 0", "FATAL:  terminating"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoServerErrorsFindsWhatIsNotAllowed(t *testing.T) {
	d := Empty(t)
	if _, err := d.Conn(t).Exec(t.Context(), "SELECT 1/0"); err == nil {
		t.Fatal("1/0 succeeded")
	}
	if d.cluster.own != nil {
		log, err := d.cluster.own.Log()
		if err != nil || len(errorLines(log, d.Name)) != 1 {
			t.Errorf("got %q, %v, want one error", errorLines(log, d.Name), err)
		}
	}
	d.NoServerErrors(t, "duplicate key", "^ERROR:  division by zero$")
	Empty(t).NoServerErrors(t)
}

// again runs tests of this binary in another process.
func again(t *testing.T, run string, env ...string) (output string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^("+run+")$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAMissingServerFailsAndSaysHowToGetOne(t *testing.T) {
	out, err := again(t, "TestWaitBlocked", "NOTIFYWORKER_TEST_DATABASE_URL=", "NOTIFYWORKER_PG=/nonexistent")
	for _, want := range []string{"--- FAIL", "tests need a PostgreSQL", "/nonexistent", "Ways on: set DATABASE_URL"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("no %q in: %v %s", want, err, out)
		}
	}
}

func TestARunningServerIsUsedAndLeftoversGo(t *testing.T) {
	s := Server(t, embedded.Config{TCP: true})
	c, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	// One database is a dead run's; the other's run holds its lock.
	for _, sql := range []string{"CREATE DATABASE nwtest_7_1", "CREATE DATABASE nwtest_8_1", fmt.Sprintf("SELECT pg_advisory_lock(%d, 8)", lockClass)} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []string{"TestDatabasesAreIsolated", "TestWaitBlocked|TestNoServerErrorsFindsWhatIsNotAllowed"} {
		if out, err := again(t, run, "NOTIFYWORKER_TEST_DATABASE_URL="+s.URL("postgres"), "NOTIFYWORKER_PG=/nonexistent"); err != nil {
			t.Fatalf("%s: %v: %s", run, err, out)
		}
	}
	rows, err := c.Query(t.Context(), "SELECT datname FROM pg_database WHERE datname LIKE 'nwtest%' ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.Equal(left, []string{"nwtest_8_1"}) {
		t.Errorf("databases left: %v, %v, want that of the living run alone", left, err)
	}
}
