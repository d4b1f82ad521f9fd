package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

const (
	workerA = "aaaaaaaa-0000-4000-8000-000000000001"
	workerB = "bbbbbbbb-0000-4000-8000-000000000002"

	soon  = 2 * time.Minute // for what a test waits for; two busy cores are slow
	short = 2 * time.Second // a lease that a test sees a heartbeat extend; who is starved for longer loses it by right
)

// bench is a migrated database with a queue on it.
type bench struct {
	*queue.Store
	db   *pgtest.Database
	pool *pgxpool.Pool
	t    testing.TB
}

func newBench(t testing.TB, opts ...pgtest.Option) bench {
	t.Helper()
	db := pgtest.DB(t, opts...)
	pool := db.Pool(t)
	b := bench{db: db, pool: pool, t: t}
	b.Store = b.store()
	return b
}

func (b bench) store() *queue.Store {
	b.t.Helper()
	s, err := queue.New(queue.Config{DB: b.pool, WorkerID: workerA, Schema: b.db.Schema})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(context.Background(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](b bench, sql string, args ...any) T {
	b.t.Helper()
	var v T
	if err := b.pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually waits for a condition that only the database knows of.
func (b bench) eventually(sql string, args ...any) {
	b.t.Helper()
	for end := time.Now().Add(soon); !value[bool](b, sql, args...); {
		if time.Now().After(end) {
			b.t.Fatalf("did not become true: %s", sql)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// job enqueues ids (a JSON array) and reserves the job.
func (b bench) job(catalog, ids string) queue.Job {
	b.t.Helper()
	b.exec(`SELECT notifyworker.enqueue_price_refresh($1, $2::text::jsonb, trace_id => 'trace-' || $1)`, catalog, ids)
	return b.reserve()
}

func (b bench) fullJob(catalog string) queue.Job {
	b.t.Helper()
	b.exec(`SELECT notifyworker.enqueue_full_refresh($1)`, catalog)
	return b.reserve()
}

// reserve reserves exactly one job.
func (b bench) reserve() queue.Job {
	b.t.Helper()
	r, err := b.Reserve(context.Background(), 1)
	if err != nil || len(r.Jobs) != 1 {
		b.t.Fatalf("reserved %d jobs, want 1: %v", len(r.Jobs), err)
	}
	return r.Jobs[0]
}

func (b bench) status(id int64) string {
	b.t.Helper()
	return value[string](b, `SELECT status FROM notifyworker.jobs WHERE id = $1`, id)
}

// fake is a Recomputer in Go. Its zero value recomputes whatever it is given.
type fake struct {
	mu    sync.Mutex
	calls []engine.Chunk
	do    func(ctx context.Context, c engine.Chunk) error // nil: succeed
}

func (f *fake) Recompute(ctx context.Context, c engine.Chunk) (int64, []engine.FailedID, error) {
	f.mu.Lock()
	f.calls = append(f.calls, c)
	f.mu.Unlock()
	if f.do != nil {
		if err := f.do(ctx, c); err != nil {
			return 0, nil, err
		}
	}
	return int64(len(c.ProductIDs)), nil, nil
}

func (f *fake) called() []engine.Chunk {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// gate holds calls until it is opened.
type gate struct {
	entered chan engine.Chunk
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan engine.Chunk, 1000), open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context, c engine.Chunk) error {
	g.entered <- c
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) wait(t testing.TB) engine.Chunk {
	t.Helper()
	select {
	case c := <-g.entered:
		return c
	case <-time.After(soon):
		t.Fatal("no chunk came")
		return engine.Chunk{}
	}
}

// quick tries again fast, so that tests don't wait for back-offs. How often it does is for the test to see, not for the clock: who
// is impatient gives up after a while.
var quick = engine.Patience{First: time.Millisecond, Cap: 5 * time.Millisecond, OutageFor: time.Hour, LaterFor: time.Hour}

func impatient(c *engine.Config) {
	c.Patience.OutageFor, c.Patience.LaterFor = 300*time.Millisecond, 300*time.Millisecond
}

// running is an engine under test, and how to stop it.
type running struct {
	*engine.Engine
	stop func() error // ends Run and returns its error; may be called twice
}

func (b bench) start(r engine.Recomputer, change ...func(*engine.Config)) running {
	b.t.Helper()
	cfg := engine.Config{
		Pool: b.pool, WorkerID: workerA, Recompute: r, Patience: quick, Schema: b.db.Schema,
		Log: zerolog.New(zerolog.NewTestWriter(b.t)).Level(zerolog.WarnLevel),
	}
	for _, c := range change {
		c(&cfg)
	}
	e, err := engine.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(soon):
			b.t.Error("Run did not end")
			return nil
		}
	})
	b.t.Cleanup(func() { _ = stop() })
	<-e.Ready()
	return running{e, stop}
}

// ids writes p<from>, p<from+1>, … as a JSON array of n.
func ids(from, n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, `,"p%d"`, from+i)
	}
	return "[" + s.String()[min(1, s.Len()):] + "]"
}

func texts(raw []json.RawMessage) []string {
	out := make([]string, len(raw))
	for i, r := range raw {
		out[i] = string(r)
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
