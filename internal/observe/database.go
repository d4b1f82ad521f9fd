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

// Parts are what is watched of the work on one database. Those that are nil are left out.
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
	Sent interface { // statements to the database
		Count() uint64
		Pings() uint64
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

// Database is one of those that the process works on. Make it by Observer.Add.
type Database struct {
	o     *Observer
	name  string
	log   zerolog.Logger
	parts atomic.Pointer[Parts] // nil until Watch

	scrapeErrors atomic.Uint64
	types        labels
	looks        looks
	pins         pins

	mu      sync.Mutex // health, and one question for it at a time
	waiting string     // what the start waits for
	waited  time.Time  // since when; zero: for nothing since it was last watched
	health  DatabaseHealth
	checked time.Time // when health was found out
	schema  time.Time // when the schema was last found to be right
	since   map[string]time.Time
}

// Waiting says what the start waits for: an error that is to pass. What was watched is watched no longer.
func (d *Database) Waiting(err error) {
	d.parts.Store(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting, d.checked = err.Error(), time.Time{}
	if d.waited.IsZero() {
		d.waited = time.Now()
	}
}

// Watch begins to watch.
func (d *Database) Watch(p Parts) {
	d.types.know(p.Types)
	d.parts.Store(&p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checked, d.waited = time.Time{}, time.Time{}
}
