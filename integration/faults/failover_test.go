package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

// follow makes a standby of a server: the other one starts anew on a copy of its data, and streams from it.
func follow(t *testing.T, primary, standby *embedded.Server, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make a standby: %s: %v", what, err)
		}
	}
	must("end it", standby.Halt(embedded.Immediate))
	c, err := pgx.Connect(ctx, url)
	must("connect to the primary", err)
	defer c.Close(ctx) //nolint:errcheck // only read from
	_, err = c.Exec(ctx, "SELECT pg_backup_start('standby', true)")
	must("begin a backup", err)
	must("copy the data", copyData(primary.DataDir(), standby.DataDir()))
	var label string
	must("end the backup", c.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(false)").Scan(&label))
	conn := fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=postgres application_name=standby'\n", primary.SocketDir(), primary.Port())
	for name, text := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": conn} {
		must("write "+name, writeAs(filepath.Join(standby.DataDir(), name), text))
	}
	must("start it", standby.Relaunch(ctx))
	for ctx.Err() == nil {
		var streaming bool
		must("look for it", c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')").Scan(&streaming))
		if streaming {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	// From here on what is acknowledged is on both.
	_, err = c.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	must("make it synchronous", err)
	_, err = c.Exec(ctx, "SELECT pg_reload_conf()")
	must("make it synchronous", err)
	for ctx.Err() == nil {
		var synchronous bool
		must("look for it", c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&synchronous))
		if synchronous {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the standby does not become synchronous")
}

// copyData copies a data folder while its server runs, as a backup may: what vanishes meanwhile is not needed.
func copyData(from, to string) error {
	list, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := os.RemoveAll(filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case name == "postmaster.pid" || name == "postmaster.opts":
			return nil
		case d.IsDir():
			if err := os.Mkdir(target, 0o700); err != nil {
				return err
			}
			return ownedLike(target)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return writeAs(target, string(text))
	})
}

// writeAs writes a file that belongs to whom its folder belongs to.
func writeAs(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return ownedLike(path)
}

func ownedLike(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}

// promote makes a standby the primary.
func promote(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx) //nolint:errcheck // only read from
	var done bool
	if err := c.QueryRow(ctx, "SELECT pg_promote(true, 120)").Scan(&done); err != nil || !done {
		t.Fatalf("promote the standby: %v, %v", done, err)
	}
}

// A primary dies under load, its synchronous standby is promoted, and the old one comes back as a standby; then once more the
// other way round, in an orderly way. Workers and clients know both by one connection string.
func TestAFailOverLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	cfg := embedded.Config{TCP: true, Durable: true, Settings: map[string]string{"wal_keep_size": "256MB"}}
	one, two := pgtest.Server(t, cfg), pgtest.Server(t, cfg)
	// The data of both is the first one's from now on, its password too.
	at := func(s *embedded.Server) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", one.Password()), Host: fmt.Sprintf("127.0.0.1:%d", s.Port()), Path: "/postgres", RawQuery: "sslmode=disable"}
		return u.String()
	}
	both := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", one.Password()), Host: fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", one.Port(), two.Port()),
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	r := &rig{t: t, server: one, url: at(one)}
	r.migrate()
	r.url = both.String() + "&target_session_attrs=read-write" // the test's own sessions
	r.install()
	r.url = both.String() // the workers see to it themselves
	follow(t, one, two, at(one))

	workers := []*process{r.worker("--chunk=2"), r.worker("--chunk=2")}
	load := r.clients(4, 6, 10*time.Millisecond)
	time.Sleep(time.Second)

	if err := one.Halt(embedded.Killed); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // somebody has to notice
	promote(t, at(two))
	promoted := time.Now()
	r.until(time.Minute, "the new primary takes writes", "SELECT NOT pg_is_in_recovery()")
	r.pickUp(30*time.Second, "probe", "after the fail-over")
	atMost(t, "from the promotion to a recomputation", time.Since(promoted), 10*time.Second)
	time.Sleep(time.Second)

	// The old primary comes back as a standby: it is the first in the connection string, and refuses to write.
	follow(t, two, one, at(two))
	r.pickUp(10*time.Second, "probe", "with the old primary as a standby")
	mark := workers[0].log.mark()
	if err := two.Halt(embedded.Fast); err != nil {
		t.Fatal(err)
	}
	promote(t, at(one))
	promoted = time.Now()
	r.pickUp(30*time.Second, "probe", "after the switch-over")
	atMost(t, "from the second promotion to a recomputation", time.Since(promoted), 10*time.Second)
	workers[0].await(mark, 20*time.Second, "that it listens again", says("listening for notifications"))

	load.stop()
	r.settle(time.Minute)
	r.judge(load)
}
