package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that a branch is taken on.
const (
	lockNotAvailable          = "55P03"
	deadlockDetected          = "40P01"
	invalidFunctionDefinition = "42P13" // CREATE OR REPLACE with another result or other parameter names
	duplicateFunction         = "42723"
	wrongObjectType           = "42809" // a function that becomes a procedure
)

func state(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

func blocked(err error) bool {
	s := state(err)
	return s == lockNotAvailable || s == deadlockDetected
}

// run sends a whole file as it is: the simple protocol takes many statements at once. An error names the line.
func run(ctx context.Context, conn *pgx.Conn, name, sql string) error {
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Position > 0 {
		runes := []rune(sql)
		at := min(int(pe.Position)-1, len(runes))
		return fmt.Errorf("%s:%d: %w", name, 1+strings.Count(string(runes[:at]), "\n"), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// runInside is run for a file that must leave the transaction open that it was given.
func runInside(ctx context.Context, conn *pgx.Conn, name, sql string) error {
	if err := run(ctx, conn, name, sql); err != nil {
		return err
	}
	if conn.PgConn().TxStatus() != 'T' {
		return fmt.Errorf("%s ends the transaction it runs in: it must say neither COMMIT nor ROLLBACK", name)
	}
	return nil
}
