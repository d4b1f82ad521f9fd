package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Database is a test's own, dropped after it; when the test failed on a server that outlives it, it is kept and named.
type Database struct {
	URL    string
	Name   string
	Schema string // that notifyworker is installed in; for Empty, where it would be

	cluster *cluster
}

// template says what a migrated database is a copy of.
type template struct{ schema, variant string }

// Option of DB.
type Option func(*template)

// Schema installs notifyworker under another name.
func Schema(name string) Option { return func(t *template) { t.schema = name } }

// Variant installs another variant of the functions, such as "cte".
func Variant(name string) Option { return func(t *template) { t.variant = name } }

const (
	databasePrefix = "nwtest_"
	patience       = 2 * time.Minute // for anything a test waits for here; two busy cores are slow
)

// DB is a migrated database, copied from a template that is migrated once a binary.
func DB(t testing.TB, opts ...Option) *Database {
	t.Helper()
	tm := template{schema: migrations.DefaultSchema}
	for _, o := range opts {
		o(&tm)
	}
	return create(t, &tm)
}

// Empty is a database without anything in it.
func Empty(t testing.TB) *Database {
	t.Helper()
	return create(t, nil)
}

func create(t testing.TB, tm *template) *Database {
	t.Helper()
	c := theCluster(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name, err := c.create(ctx, tm)
	if err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}
	d := &Database{URL: c.url(name), Name: name, Schema: migrations.DefaultSchema, cluster: c}
	if tm != nil {
		d.Schema = tm.schema
	}
	t.Cleanup(func() {
		if t.Failed() && c.own == nil {
			t.Logf("database %s is kept for a look at it", name)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.drop(ctx, name); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return d
}

// drop is tried again while somebody is in use of the database though he was told to go: on a busy machine that takes time.
func (c *cluster) drop(ctx context.Context, name string) error {
	for {
		err := c.exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		if !inUse(err) || ctx.Err() != nil {
			return err
		}
	}
}

// inUse says that the server has waited 5 s in vain for others to leave a database: an autovacuum worker, a person, or a session
// that has not ended yet.
func inUse(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "55006"
}

// create returns the name of a new database: a copy of the template, or an empty one.
func (c *cluster) create(ctx context.Context, tm *template) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := "template0"
	if tm != nil {
		var err error
		if from, err = c.template(ctx, *tm); err != nil {
			return "", err
		}
	}
	return c.copyOf(ctx, from)
}

func (c *cluster) copyOf(ctx context.Context, from string) (string, error) {
	c.serial++
	name := fmt.Sprintf("%s%d_%d", databasePrefix, c.run, c.serial)
	sql := "CREATE DATABASE " + name + " TEMPLATE " + from
	if c.own != nil {
		sql += " STRATEGY file_copy" // quicker where the checkpoints that it makes cost no disk sync
	}
	for try := 0; ; try++ {
		err := c.execLocked(ctx, sql)
		if inUse(err) && try < 5 {
			continue
		}
		return name, err
	}
}

// template migrates a database that others are copied from, once.
func (c *cluster) template(ctx context.Context, tm template) (string, error) {
	if name, ok := c.templates[tm]; ok {
		return name, nil
	}
	name, err := c.copyOf(ctx, "template0")
	if err != nil {
		return "", err
	}
	if err := c.migrate(ctx, name, tm); err != nil {
		return "", err
	}
	c.templates[tm] = name
	return name, nil
}

func (c *cluster) migrate(ctx context.Context, name string, tm template) (err error) {
	conn, err := pgx.Connect(ctx, c.url(name))
	if err != nil {
		return err
	}
	// A template that somebody is connected to can't be copied.
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	_, err = migrations.Up(ctx, conn, migrations.Options{Schema: tm.schema, Triggers: triggers.Files, Variant: tm.variant})
	return err
}

// Pool is a pool of connections, closed after the test.
func (d *Database) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(context.Background(), d.URL)
	if err != nil {
		t.Fatalf("make a pool: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Conn is a connection, closed after the test.
func (d *Database) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, d.URL)
	if err != nil {
		t.Fatalf("connect to the test's database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // it may be broken: that is the test's business
	})
	return c
}
