package observe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

// Config of an Observer; every zero value is a working default.
type Config struct {
	Addr    string // host:port to serve on; see CheckAddr
	Version string
	Log     zerolog.Logger // the zero value is silent

	PinnedAfter time.Duration // a snapshot older than this is warned of; 0 means 1m
}

// Parts are what is watched. Those that are nil are left out.
type Parts struct {
	Worker interface {
		Stats() worker.Stats
	}
	Listener interface {
		State() listen.State
	}
	Engine interface {
		Stats() engine.Stats
	}
	Pool interface {
		Stat() *pgxpool.Stat
	}
	Retention interface {
		Purged() queue.Purged
	}
	Store  Store
	Schema func(ctx context.Context) error // nil when the schema is what this binary needs, else what to do about it

	Types []string // that have a handler: labels in any case
}

// Store is what is asked of the database: a *queue.Store is one.
type Store interface {
	Depth(ctx context.Context) ([]queue.Depth, error)
	Pressure(ctx context.Context) (queue.Pressure, error)
	Additions(ctx context.Context) (n int64, oldest time.Duration, err error)
	Writable(ctx context.Context) error
}

// Observer watches the parts of a process. Make it by New.
type Observer struct {
	cfg   Config
	began time.Time
	parts atomic.Pointer[Parts] // nil until Watch

	scrapeErrors atomic.Uint64
	types        labels
	database     database
	pins         pins

	mu      sync.Mutex // health, and one question for it at a time
	waiting string     // what the start waits for
	health  Health
	checked time.Time // when health was found out
	schema  time.Time // when the schema was last found to be right
	since   map[string]time.Time
}

// New returns an Observer that watches nothing yet.
func New(cfg Config) *Observer {
	if cfg.PinnedAfter == 0 {
		cfg.PinnedAfter = time.Minute
	}
	return &Observer{cfg: cfg, began: time.Now(), since: map[string]time.Time{}}
}

// Waiting says what the start waits for: an error that is to pass.
func (o *Observer) Waiting(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting, o.checked = err.Error(), time.Time{}
}

// Watch begins to watch.
func (o *Observer) Watch(p Parts) {
	o.types.know(p.Types)
	o.parts.Store(&p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checked = time.Time{}
}
