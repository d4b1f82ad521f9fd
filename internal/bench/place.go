package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/embedded"
	"notifyworker/internal/queue"
)

// place is the database that is measured, and the schemas in it that are ours.
type place struct {
	url      string
	describe string
	server   Server
	own      *embedded.Server // nil on a database that was named
	prefix   string           // of the schemas
	made     map[string]bool
	seeded   map[string]int64 // schemas with a history, which stays: the id of its last job
	spare    int              // connections that the server can still take
}

// openPlace starts a server, or connects to the database that url leads to.
func openPlace(ctx context.Context, url, choice string) (_ *place, err error) {
	p := &place{url: url, prefix: "notifyworker_bench_" + strings.ToLower(rand.Text()[:6]), made: map[string]bool{}, seeded: map[string]int64{}}
	if url == "" {
		if p.own, err = startServer(ctx, choice); err != nil {
			return nil, fmt.Errorf("start a PostgreSQL for the benchmark: %w", err)
		}
		p.url, p.describe = p.own.URL("postgres"), p.own.Describe()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is open
	if err := p.ask(ctx, conn); err != nil {
		return nil, err
	}
	if p.own == nil {
		p.describe = fmt.Sprintf("PostgreSQL %s at %s, database %s, schemas %s_… (dropped at the end)", p.server.Version, conn.Config().Host, conn.Config().Database, p.prefix)
	}
	return p, nil
}

// startServer starts one with durable settings.
func startServer(ctx context.Context, choice string) (*embedded.Server, error) {
	return embedded.Start(ctx, embedded.Config{Choice: choice, Durable: true, Settings: map[string]string{
		"max_connections": "500", "shared_buffers": "256MB", "max_wal_size": "4GB",
	}})
}

// ask reads what the report says of the server, and what can be asked of it.
func (p *place) ask(ctx context.Context, conn *pgx.Conn) error {
	p.server = Server{Own: p.own != nil, Settings: map[string]string{}}
	rows, err := conn.Query(ctx, `SELECT name, current_setting(name) FROM pg_settings
		WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size', 'max_connections', 'wal_level')`)
	if err != nil {
		return fmt.Errorf("ask for the server's settings: %w", err)
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { p.server.Settings[name] = value; return nil }); err != nil {
		return fmt.Errorf("ask for the server's settings: %w", err)
	}
	p.server.Version = p.server.Settings["server_version"]
	delete(p.server.Settings, "server_version")
	if err := conn.QueryRow(ctx, spareSQL).Scan(&p.spare); err != nil {
		return fmt.Errorf("ask for the server's connections: %w", err)
	}
	if p.own != nil {
		return p.askOwn(ctx, conn)
	}
	var published bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_publication WHERE puballtables)").Scan(&published); err != nil {
		return fmt.Errorf("ask for publications: %w", err)
	}
	if published {
		return fmt.Errorf("database %s has a publication FOR ALL TABLES: the tables of the benchmark would be replicated, and stop subscribers that don't have them: give another database of the server", conn.Config().Database)
	}
	return nil
}

// askOwn takes note of a data folder in memory, where a sync costs nothing.
func (p *place) askOwn(ctx context.Context, conn *pgx.Conn) error {
	var folder string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&folder); err != nil {
		return fmt.Errorf("ask for the server's settings: %w", err)
	}
	if inMemory(folder) {
		p.server.Settings[filesIn] = "memory"
	}
	return nil
}

// filesIn is what a report says, among the server's settings, of the files of a server of ours: "memory", or nothing.
const filesIn = "files in"

// Connections that the server can still take from us. Who may not see the sessions of others sees how many they are, by database.
const spareSQL = `
SELECT least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
             - coalesce(current_setting('reserved_connections', true), '0')::int - (SELECT coalesce(sum(s.numbackends), 0)::int FROM pg_stat_database s),
             (SELECT d.datconnlimit - s.numbackends FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid
               WHERE d.datname = current_database() AND d.datconnlimit >= 0),
             (SELECT r.rolconnlimit - (SELECT count(*)::int FROM pg_stat_activity a WHERE a.usename = current_user)
                FROM pg_roles r WHERE r.rolname = current_user AND r.rolconnlimit >= 0))`

// close drops the schemas, and the server if it is ours.
func (p *place) close() error {
	if p.own != nil {
		return p.own.Stop()
	}
	if len(p.made) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropWithin)
	defer cancel()
	conn, err := p.connect(ctx)
	if err != nil {
		return fmt.Errorf("the schemas %s_… are left: %w", p.prefix, err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is open
	// A dump, say, may have a table locked for longer than a client of ours would wait.
	if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)"); err != nil {
		return fmt.Errorf("the schemas %s_… are left: %w", p.prefix, err)
	}
	var errs []error
	for name := range p.made {
		drop := "DROP SCHEMA IF EXISTS " + pgx.Identifier{name}.Sanitize() + " CASCADE"
		if _, err := conn.Exec(ctx, drop); err != nil {
			errs = append(errs, fmt.Errorf("schema %s is left, by hand: %s; %w", name, drop, err))
		}
	}
	return errors.Join(errs...)
}

// dropWithin is how long the schemas of the benchmark may take to be dropped, with waiting for who reads them.
const dropWithin = 2 * time.Minute

// connect opens one connection of a client.
func (p *place) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := queue.ParseURL(p.url)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	queue.Harden(cfg, "notifyworker bench")
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// withConns calls f with n connections and closes them.
func (p *place) withConns(ctx context.Context, n int, f func([]*pgx.Conn) error) error {
	conns := make([]*pgx.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // each statement was committed
		}
	}()
	for range n {
		c, err := p.connect(ctx)
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	return f(conns)
}

// withConn is withConns for one.
func (p *place) withConn(ctx context.Context, f func(*pgx.Conn) error) error {
	return p.withConns(ctx, 1, func(c []*pgx.Conn) error { return f(c[0]) })
}
