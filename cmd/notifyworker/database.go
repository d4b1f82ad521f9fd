package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

// applicationName is what the server calls our sessions, where the URL gives them no name.
const applicationName = "notifyworker"

// database are the flags of every subcommand that needs one.
type database struct {
	DatabaseURL []string `env:"DATABASE_URL" sep:"none" placeholder:"URL" help:"PostgreSQL to work on: postgres://user:password@host:5432/database. run, migrate and stats take several, with blanks between them; may be repeated."`
	Schema      string   `env:"NOTIFYWORKER_SCHEMA" placeholder:"NAME" help:"Where notifyworker's tables live (default notifyworker)."`
}

const noDatabase = `DATABASE_URL is not set. Say which PostgreSQL to work on:

    export DATABASE_URL='postgres://user:password@localhost:5432/database'

or give --database-url. To see notifyworker at work without a database of your own, run:

    notifyworker demo`

func (d *database) schema() string {
	if d.Schema == "" {
		return queue.DefaultSchema
	}
	return d.Schema
}

// parse returns the connection's settings, or what is wrong with them and the schema's name. It is for subcommands that need
// one database.
func (d *database) parse() (*pgx.ConnConfig, error) {
	shards, err := d.shards()
	if err != nil {
		return nil, err
	}
	return onlyOne(shards)
}

func parseURL(name, text string) (*pgx.ConnConfig, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New(noDatabase)
	}
	c, err := queue.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%s can't be read: %w; write postgres://user:password@host:5432/database and %%-encode special characters of the password", name, err)
	}
	if _, set := c.RuntimeParams["application_name"]; !set {
		c.RuntimeParams["application_name"] = applicationName
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	return c, nil
}

// connect opens one connection and makes sure that the schema is this binary's.
func (d *database) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := d.parse()
	if err != nil {
		return nil, usageError{err}
	}
	return d.connectTo(ctx, c)
}

// connectTo does the same for one database of several.
func (d *database) connectTo(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := migrations.Check(ctx, conn, d.schema(), triggers.Files); err != nil {
		conn.Close(ctx) //nolint:errcheck // it was only read from
		return nil, err
	}
	return conn, nil
}

// open opens one connection to whatever is there.
func open(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, forOnce(c))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", where(c), err)
	}
	return conn, nil
}

// forOnce is for a connection of a few statements: preparing them would cost more than it gains, and behind a transaction
// pooler it would meet what others have prepared by the same names.
func forOnce(from *pgx.ConnConfig) *pgx.ConnConfig {
	c := from.Copy()
	if c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return c
}

// where names a database without its password.
func where(c *pgx.ConnConfig) string {
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return fmt.Sprintf("database %s at %s as %s", c.Database, host, c.User)
}

// sql puts the schema's name where %s stands.
func (d *database) sql(format string) string {
	return strings.ReplaceAll(format, "%s", pgx.Identifier{d.schema()}.Sanitize())
}
