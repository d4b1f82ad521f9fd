package queue

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that the product branches on; the names are those of PostgreSQL's appendix A.
const (
	readOnlySQLTransaction = "25006"
	activeSQLTransaction   = "25001"
	undefinedFunction      = "42883"
	undefinedTable         = "42P01"
	undefinedColumn        = "42703"
	invalidSchemaName      = "3F000"
	insufficientPrivilege  = "42501"
	queryCanceled          = "57014"
	idleInTransaction      = "25P03"
	lockNotAvailable       = "55P03"
	objectInUse            = "55006"
	statementExists        = "42P05"
	statementMissing       = "26000"
)

// Retryable says whether the same call may succeed a little later: the connection broke, the server restarts, is full or
// is read-only for the moment, a lock or a statement took too long. A nil error is not retryable.
func Retryable(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case readOnlySQLTransaction, queryCanceled, idleInTransaction, lockNotAvailable, objectInUse, statementExists, statementMissing:
			return true
		}
		switch pg.Code[:min(2, len(pg.Code))] {
		// Connection, transaction rollback, resources, operator intervention, system error.
		case "08", "40", "53", "57", "58":
			return true
		}
		return false
	}
	var dial *pgconn.ConnectError
	var netErr net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &dial) || errors.As(err, &netErr) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "closed pool")
}

// ReadOnly says whether the server refused to write, as a standby or a server set read-only does: its connections should
// be dialled anew, since another server may be the primary now. It also says so of a connection that could not be had because
// no server among those named takes writes.
func ReadOnly(err error) bool {
	return hasCode(err, readOnlySQLTransaction) || errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
}

// SetupProblem says whether an operator must do something before the call can succeed: a right is missing, or the schema
// is missing or another version's.
func SetupProblem(err error) bool {
	return hasCode(err, insufficientPrivilege, undefinedFunction, undefinedTable, undefinedColumn, invalidSchemaName, activeSQLTransaction)
}

// Advice is what an operator can do about a SetupProblem, "" for any other error.
func Advice(err error) string {
	switch {
	case hasCode(err, insufficientPrivilege):
		return "give the worker's role its rights on the schema: see docs/security.md"
	case hasCode(err, undefinedFunction, undefinedTable, undefinedColumn, invalidSchemaName):
		return `the schema is missing or of another version: run "notifyworker migrate"`
	case hasCode(err, activeSQLTransaction):
		return "set the default_transaction_isolation of the worker's role to 'read committed'"
	case ReadOnly(err):
		return "the server is read-only: point DATABASE_URL at the primary, or name all servers with target_session_attrs=read-write"
	}
	return ""
}

func hasCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	for _, c := range codes {
		if pg.Code == c {
			return true
		}
	}
	return false
}
