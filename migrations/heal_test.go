package migrations_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
)

// upApart runs Up on a connection of its own and returns where its result will come, and the backend.
func upApart(t *testing.T, ctx context.Context, d *pgtest.Database, o migrations.Options) (result chan error, pid uint32) {
	t.Helper()
	c := d.Conn(t)
	result = make(chan error, 1)
	go func() {
		_, err := migrations.Up(ctx, c, o)
		result <- err
	}()
	return result, c.PgConn().PID()
}

func TestAKilledIndexBuildIsHealed(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c, old := d.Conn(t), d.Conn(t)
	first := options()
	first.Migrations = without(history(), "0002_index.sql", "0003_extra.sql")
	up(t, c, first)

	// An old transaction keeps the build waiting: then it is killed, and leaves an invalid index.
	exec(t, old, "BEGIN; UPDATE notifyworker.jobs SET status = 'RUNNING' WHERE id = 1")
	result, pid := upApart(t, t.Context(), d, options())
	pgtest.WaitBlocked(t, c, pid)
	if err := migrations.CheckFiles(t.Context(), c, "", without(history(), "0003_extra.sql"), definitions()); !errors.Is(err, migrations.ErrSchemaOlder) {
		t.Errorf("check while a migration is half done: got %v, want ErrSchemaOlder", err)
	}
	exec(t, c, "SELECT pg_terminate_backend("+strconv.FormatUint(uint64(pid), 10)+", 10000)")
	if err := <-result; err == nil {
		t.Fatal("a killed migration succeeded")
	}
	exec(t, old, "COMMIT")
	if value[bool](t, c, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'notifyworker.jobs_status_idx'::regclass") {
		t.Fatal("the index is valid: the test has not shown what it should")
	}
	wantUp(t, c, options(), "0002_index.sql 0003_extra.sql triggers/10_channel.sql triggers/20_announce.sql")
	if !value[bool](t, c, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'notifyworker.jobs_status_idx'::regclass") {
		t.Error("the index is still invalid")
	}
}

func TestAKilledTransactionIsHealed(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c, old := d.Conn(t), d.Conn(t)
	first := options()
	first.Migrations = without(history(), "0003_extra.sql")
	up(t, c, first)
	exec(t, old, "BEGIN; SELECT FROM notifyworker.jobs LIMIT 1")
	o := options()
	o.LockWait = time.Minute
	result, pid := upApart(t, t.Context(), d, o)
	pgtest.WaitBlocked(t, c, pid)
	exec(t, c, "SELECT pg_terminate_backend("+strconv.FormatUint(uint64(pid), 10)+", 10000)")
	if err := <-result; err == nil {
		t.Fatal("a killed migration succeeded")
	}
	exec(t, old, "COMMIT")
	wantUp(t, c, options(), "0003_extra.sql triggers/10_channel.sql triggers/20_announce.sql")
}

func TestACancelledMigrationGivesTheLockUp(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c, old := d.Conn(t), d.Conn(t)
	first := options()
	first.Migrations = without(history(), "0003_extra.sql")
	up(t, c, first)
	exec(t, old, "BEGIN; SELECT FROM notifyworker.jobs LIMIT 1")
	ctx, cancel := context.WithCancel(t.Context())
	o := options()
	o.LockWait = time.Minute
	result, pid := upApart(t, ctx, d, o)
	pgtest.WaitBlocked(t, c, pid)
	// One that waits for its turn can be cancelled too.
	turn, stop := context.WithCancel(t.Context())
	told := make(chan string, 1)
	w := options()
	w.Log = func(s string) { told <- s }
	waiting, _ := upApart(t, turn, d, w)
	<-told
	stop()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: got %v, want context.Canceled", err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("running: got %v, want context.Canceled", err)
	}
	exec(t, old, "COMMIT")
	wantUp(t, c, options(), "0003_extra.sql triggers/10_channel.sql triggers/20_announce.sql")
}

func TestWaitingForATableDoesNotHoldOthersUp(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c, old, client := d.Conn(t), d.Conn(t), d.Conn(t)
	first := options()
	first.Migrations = without(history(), "0003_extra.sql")
	up(t, c, first)
	exec(t, old, "BEGIN; SELECT FROM notifyworker.jobs LIMIT 1")

	o := options()
	o.LockWait = 50 * time.Millisecond
	o.Patience = time.Nanosecond
	if _, err := migrations.Up(t.Context(), c, o); !errors.Is(err, migrations.ErrBlocked) {
		t.Errorf("got %v, want ErrBlocked", err)
	}

	told := make(chan string, 1000)
	o.Patience = time.Minute
	o.Log = func(s string) { told <- s }
	result, _ := upApart(t, t.Context(), d, o)
	<-told // it has waited in vain once
	exec(t, client, "SET statement_timeout = '10s'; SELECT FROM notifyworker.jobs LIMIT 1; UPDATE notifyworker.jobs SET status = 'x' WHERE id = 2")
	select {
	case err := <-result:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	exec(t, old, "COMMIT")
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantUp(t, c, options(), "")
}

func TestAClientIsNeverTheVictimOfADeadlock(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	c, client := d.Conn(t), d.Conn(t)
	o := options()
	o.Migrations.(fstest.MapFS)["0004_more.sql"] = file(`CREATE TABLE :"schema".additions (id int);`)
	defs := o.Triggers.(fstest.MapFS)
	defs["30_more.sql"] = file(`CREATE OR REPLACE TRIGGER zz_last AFTER INSERT ON :"schema".additions FOR EACH ROW EXECUTE FUNCTION :"schema".announce();`)
	up(t, c, o)
	defs["40_new.sql"] = file(`SELECT 1;`)

	// The client has the table that migrate wants last, and will want the one that migrate has by then.
	exec(t, client, "BEGIN; INSERT INTO notifyworker.additions VALUES (1)")
	result, pid := upApart(t, t.Context(), d, o)
	pgtest.WaitBlocked(t, c, pid)
	// Past deadlock_timeout: a migrate that still waits for the same lock would not look for a circle any more, and the
	// client would be the one to find it. The server has no event for that.
	time.Sleep(1200 * time.Millisecond)
	exec(t, client, "INSERT INTO notifyworker.jobs (status) VALUES ('PENDING'); COMMIT")
	if err := <-result; err != nil {
		t.Error(err)
	}
	d.NoServerErrors(t, "canceling statement due to lock timeout")
}

func TestDefinitionsAreNeverSeenByHalves(t *testing.T) {
	t.Parallel()
	c := pgtest.Empty(t).Conn(t)
	up(t, c, options())
	o := options()
	defs := o.Triggers.(fstest.MapFS)
	defs["10_channel.sql"] = file(`CREATE OR REPLACE FUNCTION :"schema".channel() RETURNS text LANGUAGE sql AS $$ SELECT 'new'::text $$;`)
	defs["30_bad.sql"] = file("SELECT 1/0;")
	if _, err := migrations.Up(t.Context(), c, o); err == nil {
		t.Fatal("a bad file was installed")
	}
	if got := value[string](t, c, "SELECT notifyworker.channel()"); got != "notifyworker" {
		t.Errorf("channel() is %q: half of the definitions were installed", got)
	}
	wantUp(t, c, options(), "")
}
