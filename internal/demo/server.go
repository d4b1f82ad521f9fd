package demo

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/embedded"
	"notifyworker/internal/queue"
)

// database is where the demo plays: a server of its own, or a database of its own on a server that was named.
type database struct {
	url      string
	name     string // what url leads to
	describe string
	log      func() (string, error) // of the server; nil when it is not ours
	close    func() error
}

// own says whether the server is ours.
func (d *database) own() bool { return d.log != nil }

// openDatabase starts a server, or makes a database on the one that a connection string leads to.
func openDatabase(ctx context.Context, text, choice string) (*database, error) {
	if text != "" {
		return makeDatabase(ctx, text)
	}
	s, err := embedded.Start(ctx, embedded.Config{Choice: choice, Durable: true, Settings: map[string]string{"track_commit_timestamp": "on"}})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL for the demo: %w", err)
	}
	return &database{url: s.URL("postgres"), name: "postgres", describe: s.Describe(), log: s.Log, close: s.Stop}, nil
}

func makeDatabase(ctx context.Context, text string) (*database, error) {
	cfg, err := queue.ParseURL(text)
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
		url:      withDatabase(text, name),
		name:     name,
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

// withDatabase is a connection string with another database in it, be it a URL or key=value pairs. A URL may name one in its
// query, too, which would win over its path.
func withDatabase(text, name string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return text + " dbname=" + name // the last one counts
	}
	rest, query, _ := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(rest, "/")
	text = scheme + "://" + host + "/" + name
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(key); err == nil && (k == "dbname" || k == "database") || pair == "" {
			continue
		}
		kept = append(kept, pair)
	}
	if len(kept) > 0 {
		text += "?" + strings.Join(kept, "&")
	}
	return text
}

// wantDatabase makes sure that conn is connected to the demo's own database, before anything is written to it.
func wantDatabase(ctx context.Context, conn *pgx.Conn, name string) error {
	var is string
	if err := conn.QueryRow(ctx, "SELECT current_database()").Scan(&is); err != nil {
		return fmt.Errorf("ask for the database's name: %w", err)
	}
	if is != name {
		return fmt.Errorf("the connection leads to database %s and not to %s, which was made for the demo: nothing was done there; give --database-url without what names a database", is, name)
	}
	return nil
}
