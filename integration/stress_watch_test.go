package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// wait is a session that waits for a client's transaction in which nothing happens.
type wait struct {
	PID     int32
	Blocker int32
	Begun   time.Time // of the query that waits
	Query   string
}

// Who waits for a client's idle transaction. A plain statement may, as any SQL does, and so may a cancel, for the job's row. And so may
// who creates a catalog's first job, if a plain INSERT came between (docs/model.md): that one has "beside", and was under way when
// the call began.
const idleBlockers = `
	SELECT w.pid, b.pid, w.query_start, left(w.query, 200)
	  FROM pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) AS x (pid), pg_stat_activity b
	 WHERE w.datname = current_database() AND w.wait_event_type = 'Lock' AND b.pid = x.pid
	   AND b.application_name IN ('supplier', 'operator') AND b.state = 'idle in transaction'
	   AND NOT (w.query_start < b.state_change AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = b.pid AND l.locktype = 'advisory' AND l.classid = 1853292552))`

func mayWait(query string) bool {
	return strings.HasPrefix(query, "INSERT") || strings.Contains(query, ".cancel(")
}

// watch looks all the time who waits for whom. What it sees twice in a row, of the same call, has waited for a client.
func (s *stress) watch(ctx context.Context) error {
	c, err := s.connect(ctx, "watch")
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	before := map[wait]bool{}
	for ctx.Err() == nil {
		rows, err := c.Query(ctx, idleBlockers)
		if err != nil {
			break
		}
		now := map[wait]bool{}
		seen, err := pgx.CollectRows(rows, pgx.RowToStructByPos[wait])
		if err != nil {
			break
		}
		for _, w := range seen {
			if mayWait(w.Query) {
				continue
			}
			now[w] = true
			if before[w] {
				return fmt.Errorf("a call waits for a client's open transaction: %s", w.Query)
			}
		}
		before = now
		s.count("looks for who waits")
		pause(ctx, 10*time.Millisecond)
	}
	if ctx.Err() == nil {
		return errors.New("the look for who waits failed")
	}
	return nil
}
