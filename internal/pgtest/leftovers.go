package pgtest

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// lockClass with the run's number is the advisory lock that each test run holds while it lives.
const lockClass = 0x6e777465 // "nwte"

// dropLeftovers drops databases of test runs that were killed, on a server that runs longer than we do: those whose lock
// can be had. What is kept of failed tests goes with the next run, too.
func (c *cluster) dropLeftovers(ctx context.Context) error {
	rows, err := c.conn.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1) ORDER BY datname", databasePrefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, n := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(n, databasePrefix), "_")
		run, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			continue // not ours
		}
		if err := c.dropIfDead(ctx, n, int32(run)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) dropIfDead(ctx context.Context, name string, run int32) error {
	var dead bool
	if err := c.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", lockClass, run).Scan(&dead); err != nil || !dead {
		return err
	}
	if _, err := c.conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return err
	}
	_, err := c.conn.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", lockClass, run)
	return err
}
