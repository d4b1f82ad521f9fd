package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/embedded"
)

// database is where the demo plays: a server of its own, or a database of its own on a server that was named.
type database struct {
	url      string
	describe string
	log      func() (string, error) // of the server; nil when it is not ours
	close    func() error
}

// openDatabase starts a server, or makes a database on the one that url leads to.
func openDatabase(ctx context.Context, url, choice string) (*database, error) {
	if url != "" {
		return makeDatabase(ctx, url)
	}
	s, err := embedded.Start(ctx, embedded.Config{Choice: choice, Durable: true, Settings: map[string]string{"track_commit_timestamp": "on"}})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL for the demo: %w", err)
	}
	return &database{url: s.URL("postgres"), describe: s.Describe(), log: s.Log, close: s.Stop}, nil
}

func makeDatabase(ctx context.Context, url string) (*database, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("--database-url can't be read: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is open
	var version string
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return nil, fmt.Errorf("ask for the server's version: %w", err)
	}
	name := fmt.Sprintf("notifyworker_demo_%d", time.Now().UnixMilli())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("make a database for the demo: %w; without --database-url the demo brings its own server", err)
	}
	return &database{
		url:      withDatabase(url, name),
		describe: fmt.Sprintf("PostgreSQL %s at %s, database %s (dropped at the end)", version, cfg.Host, name),
		close: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			conn, err := pgx.ConnectConfig(ctx, cfg.Copy())
			if err != nil {
				return fmt.Errorf("drop database %s: %w", name, err)
			}
			defer conn.Close(ctx) //nolint:errcheck // nothing is open
			_, err = conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
			if err != nil {
				return fmt.Errorf("drop database %s: %w", name, err)
			}
			return nil
		},
	}, nil
}

// withDatabase is a connection string with another database in it, be it a URL or key=value pairs.
func withDatabase(url, name string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url + " dbname=" + name // the last one counts
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(rest, "/")
	url = scheme + "://" + host + "/" + name
	if hasQuery {
		url += "?" + query
	}
	return url
}
