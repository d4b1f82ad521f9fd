package migrations

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// apply runs one migration and writes it down: in one transaction, unless the file says that it can't.
func (r *runner) apply(ctx context.Context, m migration) error {
	sql := Render(m.sql, r.Schema)
	begun := time.Now()
	if !m.plain {
		return r.transaction(ctx, m.name, func(tx pgx.Tx) error {
			if err := runInside(ctx, r.conn, m.name, sql); err != nil {
				return err
			}
			return r.mark(ctx, tx, m, begun, true)
		})
	}
	// Written down before it runs: so the next run knows that it may have been interrupted.
	if err := r.mark(ctx, r.conn, m, begun, false); err != nil {
		return err
	}
	if err := r.dropInvalid(ctx, m.sql); err != nil {
		return err
	}
	// No lock_timeout: CREATE INDEX CONCURRENTLY waits for old transactions, and nobody waits behind it.
	if err := run(ctx, r.conn, m.name, Render(`SET lock_timeout = 0; SET statement_timeout = 0; SET search_path = :"schema", pg_temp`, r.Schema)); err != nil {
		return err
	}
	err := run(ctx, r.conn, m.name, sql)
	if !r.conn.IsClosed() {
		if e := run(ctx, r.conn, m.name, "RESET lock_timeout; RESET statement_timeout; RESET search_path"); err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	return r.mark(ctx, r.conn, m, begun, true)
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (r *runner) mark(ctx context.Context, db execer, m migration, begun time.Time, done bool) error {
	_, err := db.Exec(ctx, Render(`INSERT INTO :"schema".schema_version AS v (version, name, checksum, done, duration_ms)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (version) DO UPDATE SET name = excluded.name, checksum = excluded.checksum, done = excluded.done,
			duration_ms = excluded.duration_ms, applied_at = now()`, r.Schema),
		m.version, m.name, m.sum, done, time.Since(begun).Milliseconds())
	if err != nil {
		return fmt.Errorf("write the version down: %w", err)
	}
	return nil
}

// dropInvalid drops the invalid indexes that an interrupted CREATE INDEX CONCURRENTLY has left and that the file names: IF
// NOT EXISTS would take them for good ones.
func (r *runner) dropInvalid(ctx context.Context, sql string) error {
	rows, err := r.conn.Query(ctx, `SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND NOT i.indisvalid`, r.Schema)
	if err != nil {
		return fmt.Errorf("look for invalid indexes: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for invalid indexes: %w", err)
	}
	for _, n := range names {
		if !strings.Contains(sql, n) {
			continue
		}
		if _, err := r.conn.Exec(ctx, Render(`DROP INDEX CONCURRENTLY IF EXISTS :"schema".`, r.Schema)+quoteIdent(n)); err != nil {
			return fmt.Errorf("drop the invalid index %s: %w", n, err)
		}
	}
	return nil
}
