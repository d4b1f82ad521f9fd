package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier reads; a pgx connection, pool or transaction is one.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// WaitBlocked returns when the backend pid waits for a lock, and fails the test when it does not come to that. observer is
// another session than the one that is waited for.
func WaitBlocked(t testing.TB, observer Querier, pid uint32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		var blocked bool
		err := observer.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", pid).Scan(&blocked)
		if err != nil {
			t.Fatalf("look whether backend %d waits for a lock: %v", pid, err)
		}
		if blocked {
			return
		}
		time.Sleep(time.Millisecond) // the server has no event for it
	}
	var doing string
	err := observer.QueryRow(context.Background(), `SELECT coalesce((SELECT format('%s, %s/%s: %s', state, wait_event_type, wait_event, query)
		FROM pg_stat_activity WHERE pid = $1), 'it is gone')`, pid).Scan(&doing)
	t.Fatalf("backend %d waits for no lock after %v; it does: %s (%v)", pid, patience, doing, err)
}
