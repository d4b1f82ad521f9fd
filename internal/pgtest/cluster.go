package pgtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/embedded"

	"github.com/jackc/pgx/v5"
)

const (
	serverEnv  = "NOTIFYWORKER_PG"
	testURLEnv = "NOTIFYWORKER_TEST_DATABASE_URL"
	urlEnv     = "DATABASE_URL"
	durableEnv = "NOTIFYWORKER_PG_DURABLE" // anything but "": commits reach the disk, for benchmarks
)

// cluster is the server that all tests of this binary share.
type cluster struct {
	admin string           // URL of a database to make others from
	own   *embedded.Server // nil when it ran before us

	run int32 // number of this test run, drawn by lot: process ids repeat where several containers use one server

	mu        sync.Mutex // one CREATE DATABASE at a time: a template that is being copied can't be copied
	conn      *pgx.Conn
	templates map[template]string // names of migrated databases
	serial    int
}

// shared starts the server when it is first asked for. It lives as long as the process: so it is the one thing that
// tests share, and the reason for a variable.
var shared = sync.OnceValues(func() (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c := &cluster{run: rand.Int32(), templates: map[template]string{}}
	c.admin = os.Getenv(testURLEnv)
	if c.admin == "" && os.Getenv(serverEnv) == "" {
		c.admin = os.Getenv(urlEnv)
	}
	if c.admin == "" {
		s, err := embedded.Start(ctx, embedded.Config{
			Choice: os.Getenv(serverEnv), Durable: os.Getenv(durableEnv) != "",
			Settings: map[string]string{"max_connections": "500"}, // several tests at once have several workers each
		})
		if err != nil {
			return nil, fmt.Errorf("start a server for tests: %w", err)
		}
		c.own, c.admin = s, s.SocketURL("postgres")
	}
	if _, err := c.connection(ctx); err != nil {
		return nil, err
	}
	if c.own == nil {
		if err := c.dropLeftovers(ctx); err != nil {
			return nil, fmt.Errorf("drop databases that dead test runs left: %w", err)
		}
	}
	return c, nil
})

func theCluster(t testing.TB) *cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatalf("tests need a PostgreSQL: %v\n%s", err, embedded.Ways())
	}
	return c
}

// connection is the one that makes and drops databases; c.mu is held, or c is not shared yet.
func (c *cluster) connection(ctx context.Context) (*pgx.Conn, error) {
	if c.conn != nil && !c.conn.IsClosed() {
		return c.conn, nil
	}
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return nil, fmt.Errorf("connect to the server for tests: %w", err)
	}
	// Says to other test runs that ours is alive: see dropLeftovers.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", lockClass, c.run); err != nil {
		return nil, fmt.Errorf("lock the test run: %w", err)
	}
	c.conn = conn
	return conn, nil
}

// exec runs one statement on the maintenance connection, alone.
func (c *cluster) exec(ctx context.Context, sql string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.execLocked(ctx, sql)
}

func (c *cluster) execLocked(ctx context.Context, sql string) error {
	conn, err := c.connection(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// url is the connection string of another database of this server.
func (c *cluster) url(db string) string {
	if c.own != nil {
		return c.own.SocketURL(db)
	}
	return withDatabase(c.admin, db)
}

// withDatabase takes a URL or key=value pairs.
func withDatabase(conn, db string) string {
	u, err := url.Parse(conn)
	if err != nil || u.Scheme == "" {
		return conn + " dbname=" + db // the last one counts
	}
	u.Path = "/" + db
	return u.String()
}
