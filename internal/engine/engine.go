package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

// Defaults of Config.
const (
	DefaultRefreshes    = 8
	DefaultQueue        = 64
	DefaultChunk        = 500
	DefaultDrainTimeout = 20 * time.Second
	DefaultQueueWait    = 5 * time.Second

	minLease    = 500 * time.Millisecond
	maxChunk    = 50_000
	callTimeout = 10 * time.Second // for a statement of ours that the database doesn't answer
	// maxTakeovers is how many processes that took it over may begin a refresh and die without progress, before it is given up.
	maxTakeovers = 5
)

// Config is complete when Pool, WorkerID and Recompute are set; every other zero value is a working default.
type Config struct {
	// Pool reaches notifyworker's schema. Admissions, progress and heartbeats go through it, each a moment long.
	Pool      *pgxpool.Pool
	Schema    string // "" means notifyworker
	WorkerID  string // UUID of this process, new at each start
	Recompute Recomputer

	ArticleFunction string // SQL function name(text) returning text; "" means article_of of the schema
	Products        Lister // lists a catalog for a full refresh; nil means that a full refresh is one call

	Refreshes    int           // run at once; 0 means DefaultRefreshes
	Queue        int           // accepted and waiting for their turn, besides; 0 means DefaultQueue
	Chunk        int           // product ids a call of Recompute; 0 means DefaultChunk
	Lease        time.Duration // how long a refresh is held without a heartbeat; 0 means queue.DefaultLease
	DrainTimeout time.Duration // for the chunks under way at a shutdown; 0 means DefaultDrainTimeout
	QueueWait    time.Duration // how long Handle waits for a place before it refuses a job; 0 means DefaultQueueWait
	Patience     Patience

	Log zerolog.Logger // the zero value is silent
}

// Engine admits and runs refreshes. It is safe for concurrent use.
type Engine struct {
	cfg   Config
	store store
	queue chan *refresh // never blocks: it has room for every place, and for what TakeOver and TakeOverAll may be above that
	waker waker
	ready chan struct{} // closed when Run accepts submissions
	stats counters

	taking    sync.Mutex    // one TakeOver at a time
	takingAll sync.Mutex    // one TakeOverAll
	more      chan struct{} // there may be refreshes to take over, and a place; holds one

	mu       sync.Mutex
	ran      bool               // Run was called
	running  bool               // and has not been told to stop
	places   int                // taken: being admitted, queued or running
	held     map[int64]*refresh // queued or running, by id
	room     chan struct{}      // closed and made anew when a place is free, or at the stop
	admitted sync.WaitGroup     // calls that hold a place and have not queued a refresh yet
	missed   bool               // there may be expired refreshes that there was no place for
}

// New returns an Engine, or all that is wrong with cfg at once. It asks nothing of the database: see Check.
func New(cfg Config) (*Engine, error) {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf("engine: "+format, args...)) }
	if cfg.Pool == nil {
		complain("Pool is not set")
	}
	if cfg.WorkerID == "" {
		complain("WorkerID is not set")
	}
	if cfg.Recompute == nil {
		complain("no recomputation is configured: name a SQL function or an HTTP endpoint")
	}
	for name, n := range map[string]int{"refreshes": cfg.Refreshes, "refresh_queue": cfg.Queue, "chunk": cfg.Chunk} {
		if n < 0 {
			complain("%s is %d: it can't be negative", name, n)
		}
	}
	if cfg.Chunk > maxChunk {
		complain("chunk is %d: give at most %d", cfg.Chunk, maxChunk)
	}
	if cfg.Lease != 0 && cfg.Lease < minLease {
		complain("lease is %v: give at least %v, or live refreshes would be taken over", cfg.Lease, minLease)
	}
	for name, d := range map[string]time.Duration{"drain_timeout": cfg.DrainTimeout, "queue wait": cfg.QueueWait} {
		if d < 0 {
			complain("%s is %v: it can't be negative", name, d)
		}
	}
	if err := cfg.Patience.validate(); err != nil {
		errs = append(errs, err)
	}
	cfg = cfg.withDefaults()
	if f, ok := cfg.Recompute.(*SQLFunction); ok && cfg.Pool != nil && f.cfg.Pool == cfg.Pool && int(cfg.Pool.Config().MaxConns) <= cfg.Refreshes {
		complain("the pool has %d connections and %d refreshes may each hold one: give it more, or heartbeats would find none left",
			cfg.Pool.Config().MaxConns, cfg.Refreshes)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Engine{
		cfg:   cfg,
		store: newStore(cfg),
		queue: make(chan *refresh, cfg.Refreshes+cfg.Queue+mostTakenOver),
		more:  make(chan struct{}, 1),
		waker: newWaker(),
		ready: make(chan struct{}),
		held:  map[int64]*refresh{},
		room:  make(chan struct{}),
	}, nil
}

func (c Config) withDefaults() Config {
	c.Schema = orDefault(c.Schema, queue.DefaultSchema)
	c.Refreshes = orDefault(c.Refreshes, DefaultRefreshes)
	c.Queue = orDefault(c.Queue, DefaultQueue)
	c.Chunk = orDefault(c.Chunk, DefaultChunk)
	c.Lease = orDefault(c.Lease, queue.DefaultLease)
	c.DrainTimeout = orDefault(c.DrainTimeout, DefaultDrainTimeout)
	c.QueueWait = orDefault(c.QueueWait, DefaultQueueWait)
	c.Patience = c.Patience.withDefaults()
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// capacity is how many refreshes may be held.
func (e *Engine) capacity() int { return e.cfg.Refreshes + e.cfg.Queue }

// Ready is closed when Run has begun and submissions are admitted.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Check asks the database whether the functions that are configured exist and have the right shape. Call it once at the
// start: what it says is for the operator.
func (e *Engine) Check(ctx context.Context) error {
	var errs []error
	if e.cfg.ArticleFunction != "" {
		if _, err := lookUp(ctx, e.cfg.Pool, e.cfg.ArticleFunction, articleSignatures); err != nil {
			errs = append(errs, fmt.Errorf("article function: %w", err))
		}
	}
	for what, part := range map[string]any{"recomputation": e.cfg.Recompute, "products function": e.cfg.Products} {
		if c, ok := part.(interface {
			Check(ctx context.Context) error
		}); ok {
			if err := c.Check(ctx); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
		}
	}
	return errors.Join(errs...)
}
