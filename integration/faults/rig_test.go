package faults

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed ledger.sql
var ledgerSQL string

// rig is a database with the ledger in it, and the workers that are tried on it.
type rig struct {
	t       *testing.T
	url     string           // as the test and, unless told otherwise, its workers reach it
	db      *pgxpool.Pool    // the test's own sessions
	server  *embedded.Server // nil when the server is shared with other tests
	shared  *pgtest.Database // nil when it is not
	workers atomic.Int32
	env     []string   // more for the workers' environment
	started []*process // all workers; only the test's goroutine starts any
}

// onDatabase is a rig on a database of the server that all tests share: for what stays within one database.
func onDatabase(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	d := pgtest.DB(t)
	r := &rig{t: t, url: d.URL, shared: d}
	r.install()
	return r
}

// onServer is a rig on a server of its own, reached over TCP.
func onServer(t *testing.T, cfg embedded.Config) *rig {
	t.Helper()
	t.Parallel()
	cfg.TCP = true
	s := pgtest.Server(t, cfg)
	r := &rig{t: t, server: s, url: s.URL("postgres")}
	r.migrate()
	r.install()
	return r
}

func (r *rig) migrate() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, r.url)
	if err == nil {
		_, err = migrations.Up(ctx, c, migrations.Options{Triggers: triggers.Files})
		err = errors.Join(err, c.Close(ctx))
	}
	if err != nil {
		r.t.Fatalf("migrate: %v", err)
	}
}

func (r *rig) install() {
	r.t.Helper()
	cfg, err := pgxpool.ParseConfig(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.MaxConns = 12
	cfg.ConnConfig.ConnectTimeout = 30 * time.Second
	// A session that the last fault has ended is not the next statement's, whose failure would be taken for the worker's.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	cfg.ConnConfig.RuntimeParams["application_name"] = "test"
	if r.db, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.db.Close)
	if _, err := r.db.Exec(context.Background(), ledgerSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		r.t.Fatalf("install the ledger: %v", err)
	}
}

// statement is how long one of the test's own may take; those that wait for something do so again and again.
const statement = time.Minute

// exec runs SQL of the test's own.
func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), statement)
	defer cancel()
	if _, err := r.db.Exec(ctx, sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// ask reads one value.
func ask[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	v, err := try[T](r, sql, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func try[T any](r *rig, sql string, args ...any) (v T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statement)
	defer cancel()
	return v, r.db.QueryRow(ctx, sql, args...).Scan(&v)
}

// until waits for a condition in SQL, and says how long it took. An error counts as "not yet": the server may be away.
func (r *rig) until(within time.Duration, what, sql string, args ...any) time.Duration {
	r.t.Helper()
	began := time.Now()
	var err error
	for time.Since(began) < patient(within) {
		var yes bool
		if yes, err = try[bool](r, sql, args...); err == nil && yes {
			return time.Since(began)
		}
		time.Sleep(5 * time.Millisecond) // the server has no event for it
	}
	r.t.Fatalf("not within %v: %s (%v)\n%s", within, what, err, r.state())
	return 0
}

// enqueue enqueues ids in a transaction of their own and returns the job.
func (r *rig) enqueue(catalog string, ids ...string) int64 {
	r.t.Helper()
	return ask[int64](r, "SELECT ledger.enqueue($1, $2)", catalog, ids)
}

// job enqueues a job of another type.
func (r *rig) job(jobType, config string) int64 {
	r.t.Helper()
	return ask[int64](r, "SELECT job_id FROM notifyworker.enqueue_job($1, $2::text::jsonb)", jobType, config)
}

// worker starts a worker and returns once it listens. The slow poll is so slow that it hides nothing.
func (r *rig) worker(args ...string) *process {
	r.t.Helper()
	p := r.launch(r.url, args...)
	p.await(0, startup, "that it listens", says("listening for notifications"))
	p.await(0, startup, "that it has started", says("worker started"))
	return p
}

// launch starts a worker on a URL and returns at once.
func (r *rig) launch(url string, args ...string) *process {
	r.t.Helper()
	name := fmt.Sprintf("worker %d", r.workers.Add(1))
	all := []string{"run", "--exit-with-parent", "--log-format=json", "--log-level=debug", "--poll-interval=10m", "--recompute=sql:ledger.recompute", "--http=127.0.0.1:0"}
	p := start(r.t, name, append([]string{"DATABASE_URL=" + url}, r.env...), append(all, args...)...)
	r.started = append(r.started, p)
	return p
}

// with adds a parameter to the rig's URL.
func (r *rig) with(key, value string) string {
	r.t.Helper()
	u, err := url.Parse(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// via is the rig's URL by another address.
func (r *rig) via(address string) string {
	r.t.Helper()
	u, err := url.Parse(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	u.Host = address
	return u.String()
}

// state tells what is left, for a failed test.
func (r *rig) state() string {
	text, err := try[string](r, `SELECT coalesce(string_agg(what, E'\n'), 'nothing is left') FROM (
		(SELECT format('job %s %s %s %s, attempt %s of %s, %s ids, due in %s, lease ends in %s, worker %s, %s %s', id, type, catalog_id, status, attempts, max_attempts,
		        product_count, run_after - clock_timestamp(), lease_expires_at - clock_timestamp(), left(worker_id::text, 8), left(error, 200), result) AS what
		   FROM notifyworker.jobs WHERE status NOT IN ('COMPLETED') ORDER BY id LIMIT 20)
		UNION ALL
		(SELECT format('addition %s of %s, marked %s, run after %s', id, catalog_id, marked, run_after) FROM notifyworker.job_additions ORDER BY id LIMIT 20)
		UNION ALL
		(SELECT format('refresh %s of %s, %s of %s done, lease ends in %s', id, catalog_id, done_count, product_count, lease_expires_at - clock_timestamp())
		   FROM notifyworker.refreshes WHERE status = 'ACTIVE' ORDER BY id LIMIT 20)
		UNION ALL
		(SELECT format('worker %s, process %s, wants notify %s, busy %s, last beat %s ago', left(id::text, 8), pid, wants_notify, busy, clock_timestamp() - last_beat)
		   FROM notifyworker.workers)) x`)
	if err != nil {
		return "what is left can't be read: " + err.Error()
	}
	return text
}

// serverSaid counts lines of the server's log that contain one of the texts; for a shared server, of this database.
func (r *rig) serverSaid(texts ...string) int {
	r.t.Helper()
	if r.server == nil {
		r.t.Fatal("only a server of its own has a log that is the test's")
	}
	log, err := r.server.Log()
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(log) {
		for _, text := range texts {
			if strings.Contains(line, text) {
				n++
				break
			}
		}
	}
	return n
}
