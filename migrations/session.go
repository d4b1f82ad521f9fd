package migrations

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// locked runs f while this session has the schema's migration lock. It polls: a session that blocks inside
// pg_advisory_lock holds a snapshot, which CREATE INDEX CONCURRENTLY in another session waits for: a deadlock.
func locked(ctx context.Context, conn *pgx.Conn, schema string, log func(string), f func() error) (err error) {
	key := lockKey(schema)
	for told := false; ; {
		var ok bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key).Scan(&ok); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if ok {
			break
		}
		if !told {
			log("another process migrates this schema: waiting for it")
			told = true
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for another process to migrate: %w", err)
		}
	}
	defer func() { err = errors.Join(err, unlock(ctx, conn, key)) }()
	return f()
}

// unlock gives the lock up also when ctx has ended or f left a transaction open. Where it can't, it closes the connection:
// the end of a session is the end of its locks.
func unlock(ctx context.Context, conn *pgx.Conn, key int64) error {
	if conn.IsClosed() {
		return nil // pgx closes a connection whose query was cancelled
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var err error
	if conn.PgConn().TxStatus() != 'I' {
		_, err = conn.Exec(ctx, "ROLLBACK")
	}
	var mine bool
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", key).Scan(&mine)
	}
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("give up the migration lock: %w", err), conn.Close(ctx))
	case !mine:
		return errors.New("the migration lock was not this session's any more: migrate over a connection of its own, not through a transaction pooler")
	}
	return nil
}

// lockKey is the same for each process that migrates this schema; advisory locks are per database.
func lockKey(schema string) int64 {
	h := sha256.Sum256([]byte("notifyworker migrate " + schema))
	return int64(binary.BigEndian.Uint64(h[:8]))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d + rand.N(d/2+1)):
		return nil
	}
}

// transaction runs f in a transaction that queues for no lock longer than LockWait: what waits for a table's lock makes all
// others wait that come after it. It is tried again, with growing pauses, while others' locks are in the way.
func (r *runner) transaction(ctx context.Context, what string, f func(pgx.Tx) error) error {
	gap := 100 * time.Millisecond
	for begun := time.Now(); ; {
		err := pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
			set := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0; SET LOCAL search_path = %s, pg_temp",
				r.LockWait.Milliseconds(), quoteIdent(r.Schema))
			if _, err := tx.Exec(ctx, set); err != nil {
				return err
			}
			return f(tx)
		})
		if err == nil || !blocked(err) {
			return err
		}
		if time.Since(begun) > r.Patience {
			return fmt.Errorf("%w that this needs, for %s: look for long transactions in pg_stat_activity, end them, and migrate again (%w)",
				ErrBlocked, r.Patience, err)
		}
		r.Log(what + ": another session's lock is in the way, trying again")
		if err := pause(ctx, gap); err != nil {
			return fmt.Errorf("wait for another session's lock: %w", err)
		}
		gap = min(2*gap, 5*time.Second)
	}
}
