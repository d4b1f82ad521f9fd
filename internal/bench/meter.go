package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shirou/gopsutil/v4/process"
)

// statements returns how many statements all workers in this database have sent so far; NaN where the server doesn't count them by
// their text. Whose they are can't be told: from PostgreSQL 18 on, statements that differ in the schema alone are one. So only
// one contender may be at work while they are counted.
func (r *run) statements(ctx context.Context, conn *pgx.Conn) (n float64, err error) {
	if !r.place.counter {
		return math.NaN(), nil
	}
	// Workers name their schema in each statement, and our own clients say who they are.
	err = conn.QueryRow(ctx, `SELECT /* bench client */ coalesce(sum(calls), 0)::float8 FROM pg_stat_statements
		WHERE toplevel AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		  AND strpos(query, 'notifyworker') > 0 AND strpos(query, '/* bench client */') = 0`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count statements: %w", err)
	}
	return n, nil
}

// descriptors is how many files and connections the contender's processes have open; NaN where the system doesn't tell.
func (c *contender) descriptors(ctx context.Context) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0.0
	for _, pid := range c.pids {
		p, err := process.NewProcessWithContext(ctx, int32(pid))
		if err != nil {
			return math.NaN()
		}
		n, err := p.NumFDsWithContext(ctx)
		if err != nil {
			return math.NaN()
		}
		sum += float64(n)
	}
	return sum
}

// usage is the processor time of a contender's processes so far, and the memory of the largest now.
func (c *contender) usage(ctx context.Context) (cpu time.Duration, rss uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pid := range c.pids {
		p, err := process.NewProcessWithContext(ctx, int32(pid))
		if err != nil {
			return 0, 0, fmt.Errorf("look at worker process %d: %w", pid, err)
		}
		t, err := p.TimesWithContext(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("ask for the processor time of process %d: %w", pid, err)
		}
		m, err := p.MemoryInfoWithContext(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("ask for the memory of process %d: %w", pid, err)
		}
		cpu += time.Duration((t.User + t.System) * float64(time.Second))
		rss = max(rss, m.RSS)
	}
	return cpu, rss, nil
}
