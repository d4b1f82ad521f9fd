package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// FitPooler asks, by a connection of its own, whether a hardened configuration leads through a transaction pooler such as
// PgBouncer, and makes it fit for that. A server that can't be reached is taken for one that is reached directly. OpenPool
// does the same by itself.
func FitPooler(ctx context.Context, cfg *pgx.ConnConfig) {
	var p throughPooler
	_ = p.fit(ctx, cfg) // always nil: it only has the shape of a pool's hook
}

// throughPooler finds out, once, whether a pool's connections lead through a transaction pooler, and makes them fit for it:
// no start-up parameters, which it refuses or forgets, and no prepared statements, which it can't tell apart. Leases, locks
// and time-outs of our own don't need either; READ COMMITTED is then up to the role's default, and asked for where it
// matters.
type throughPooler struct {
	mu    sync.Mutex
	known bool
	yes   bool
}

// fit is the pool's BeforeConnect.
func (p *throughPooler) fit(ctx context.Context, cfg *pgx.ConnConfig) error {
	if !p.is(ctx, cfg) {
		return nil
	}
	for name, ours := range sessionSettings() {
		if cfg.RuntimeParams[name] == ours {
			delete(cfg.RuntimeParams, name)
		}
	}
	if cfg.DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	cfg.StatementCacheCapacity, cfg.DescriptionCacheCapacity = 0, 0
	return nil
}

// is asks by a connection of its own. One that fails for another reason tells nothing: the next asks again.
func (p *throughPooler) is(ctx context.Context, cfg *pgx.ConnConfig) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.yes
	}
	conn, err := pgconn.ConnectConfig(ctx, &cfg.Copy().Config)
	if err != nil {
		p.yes = refusesParameters(err)
		p.known = p.yes
		return p.yes
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only asked
	// A pooler tells a process id of its own at the log-in.
	results, err := conn.Exec(ctx, "SELECT pg_backend_pid() = "+strconv.FormatUint(uint64(conn.PID()), 10)).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return false
	}
	p.known, p.yes = true, string(results[0].Rows[0][0]) != "t"
	return p.yes
}

// refusesParameters says whether the server's place is taken by a pooler that does not know a start-up parameter.
func refusesParameters(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "08P01" && strings.Contains(pg.Message, "startup parameter")
}
