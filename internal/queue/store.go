package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what a Store needs of a pool; a *pgxpool.Pool is one.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Config is complete when DB and WorkerID are set; every other zero value is a working default.
type Config struct {
	DB       DB
	Schema   string // "" means notifyworker
	WorkerID string // UUID of this process, new at each start

	Types  map[string]TypeSettings // rules of single types; "" is the rule of all others
	MaxIDs int                     // product ids a reservation takes at most; 0 means 50,000
	// CallTimeout ends a call that the database doesn't answer, so that a table lock or a silent network can't hold the
	// worker for ever. 0 means 10 s.
	CallTimeout time.Duration
}

// DefaultSchema is where the tables live unless configured otherwise.
const DefaultSchema = "notifyworker"

const (
	defaultMaxIDs      = 50_000
	defaultCallTimeout = 10 * time.Second
	// A commit's sync takes milliseconds; who holds longer is most likely no commit. Whoever falls asleep looks at nothing
	// meanwhile, and tries again later.
	barrierTimeout = 200 * time.Millisecond
)

// Store asks and changes the jobs table. It is safe for concurrent use; Reserve is meant for one caller, and
// OpenHands and Take are for one goroutine, the one that reads the connection that they use.
type Store struct {
	cfg    Config
	sql    statements
	leases string // JSON, {"type": lease in ms}
	empty  emptyLooks
	looks  looks
	hands  hands
	ended  Ended

	purging purging
}

// New returns a Store, or all that is wrong with cfg at once.
func New(cfg Config) (*Store, error) {
	var errs []error
	if cfg.DB == nil {
		errs = append(errs, errors.New("queue: DB is not set"))
	}
	if cfg.WorkerID == "" {
		errs = append(errs, errors.New("queue: WorkerID is not set"))
	}
	if cfg.MaxIDs < 0 {
		errs = append(errs, fmt.Errorf("queue: MaxIDs is %d: give at least 1, or 0 for %d", cfg.MaxIDs, defaultMaxIDs))
	}
	leases := map[string]int64{}
	for name, t := range cfg.Types {
		if err := t.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("queue: type %q: %w", name, err))
		}
		if name != "" && t.Lease > 0 {
			leases[name] = t.Lease.Milliseconds()
		}
	}
	if cfg.Schema == "" {
		cfg.Schema = DefaultSchema
	}
	if cfg.MaxIDs == 0 {
		cfg.MaxIDs = defaultMaxIDs
	}
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	text, err := json.Marshal(leases)
	errs = append(errs, err)
	stmts, err := newStatements(cfg.Schema)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, sql: stmts, leases: string(text), hands: hands{refused: ErrNoHands, atOnce: letAtOnce}}, nil
}

// Settings returns the rules of a type, defaults filled in.
func (s *Store) Settings(jobType string) TypeSettings {
	t, ok := s.cfg.Types[jobType]
	if !ok {
		t = s.cfg.Types[""]
	}
	return t.WithDefaults(jobType)
}

func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.CallTimeout)
}

// collect runs a statement that returns one column of ids.
func (s *Store) collect(ctx context.Context, sql string, args ...any) ([]int64, error) {
	rows, err := s.cfg.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}
