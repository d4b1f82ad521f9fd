package worker_test

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/listen"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

const patience = 2 * time.Minute // two busy cores are slow

// process is a worker with its listener, as a program wires them.
type process struct {
	t    *testing.T
	w    *worker.Worker
	l    *listen.Listener
	stop func() error
	kill context.CancelFunc
}

// begin runs one on a database until the test ends. The slow poll is an hour away: what is not announced is not found.
func begin(t *testing.T, url string, handlers map[string]queue.Handler, change func(*worker.Config)) *process {
	t.Helper()
	ctx := context.Background()
	pool, err := queue.OpenPool(ctx, url, "notifyworker test", 6)
	if err != nil {
		t.Fatal(err)
	}
	id := newID(t)
	cfg := worker.Config{
		Handlers: handlers, ID: id, EchoChannel: listen.EchoChannel(id), BeatEvery: 500 * time.Millisecond,
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel), Bell: listen.NewDoorbell(),
	}
	if change != nil {
		change(&cfg)
	}
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	store, err := queue.New(queue.Config{DB: pool, WorkerID: id, Types: cfg.Types})
	if err != nil {
		t.Fatal(err)
	}
	var w *worker.Worker // made below, before the listener runs
	l, err := listen.New(listen.Config{
		Hands: func() listen.Hands { return w }, OpenHands: store.OpenHands,
		Bell: cfg.Bell, Conn: conn, Channel: migrations.DefaultSchema, EchoChannel: cfg.EchoChannel, PollEvery: time.Hour,
		FallbackPollEvery: time.Second, Seats: migrations.DefaultSchema, Log: cfg.Log,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Seat, cfg.Beaten, cfg.TakesHanded = store, l, l.EchoSent, true
	w, err = worker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithCancel(ctx)
	end, kill := context.WithCancel(ctx)
	listening, quiet := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var lErr, wErr error
	wg.Go(func() { lErr = l.Run(listening) })
	wg.Go(func() { defer quiet(); wErr = w.Run(stop, end) })
	p := &process{t: t, w: w, l: l, kill: kill}
	p.stop = sync.OnceValue(func() error {
		cancel()
		wg.Wait()
		kill()
		pool.Close()
		cfg.Bell.Close()
		return errors.Join(lErr, wErr)
	})
	t.Cleanup(func() { _ = p.stop() })
	return p
}

func newID(t testing.TB) string {
	t.Helper()
	b := make([]byte, 16)
	if _, err := crand.Read(b); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// asleep waits until the worker wants to be notified.
func (p *process) asleep(pool *pgxpool.Pool, workers int) {
	p.t.Helper()
	await(p.t, "sleeping workers", func() bool {
		var n int
		err := pool.QueryRow(context.Background(), "SELECT count(*) FROM notifyworker.workers WHERE wants_notify").Scan(&n)
		return err == nil && n >= workers
	})
	<-p.l.Ready()
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func enqueueJob(t *testing.T, pool *pgxpool.Pool, jobType string, delay time.Duration) (id int64) {
	t.Helper()
	err := pool.QueryRow(context.Background(), "SELECT job_id FROM notifyworker.enqueue_job($1, '{}', delay => $2)", jobType, delay).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func status(t *testing.T, pool *pgxpool.Pool, id int64) (status string, attempts int, lag time.Duration) {
	t.Helper()
	var ms float64
	err := pool.QueryRow(context.Background(), `SELECT status, attempts, coalesce(extract(epoch FROM started_at - greatest(created_at, run_after)) * 1000, 0)
		FROM notifyworker.jobs WHERE id = $1`, id).Scan(&status, &attempts, &ms)
	if err != nil {
		t.Fatal(err)
	}
	return status, attempts, time.Duration(ms * float64(time.Millisecond))
}

func done(context.Context, queue.Job) queue.Outcome {
	return queue.Outcome{Result: json.RawMessage(`{"seen":true}`)}
}

func TestASleepingWorkerIsWokenByACommit(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	p := begin(t, db.URL, map[string]queue.Handler{"t": queue.HandlerFunc(done)}, nil)
	p.asleep(pool, 1)
	for range 30 {
		id := enqueueJob(t, pool, "t", 0)
		await(t, "the job", func() bool { s, _, _ := status(t, pool, id); return s == "COMPLETED" })
		if _, _, lag := status(t, pool, id); lag > patience { // far from any poll; how fast is for benchmarks
			t.Errorf("started %v after its commit", lag)
		}
	}
	id := enqueueJob(t, pool, "t", 700*time.Millisecond)
	await(t, "the delayed job", func() bool { s, _, _ := status(t, pool, id); return s == "COMPLETED" })
	if _, _, lag := status(t, pool, id); lag > patience {
		t.Errorf("a delayed job started %v after its time", lag)
	}
	await(t, "an echo of a beat", func() bool { s := p.l.State(); return s.Echoes > 1 && s.Overdue == 0 })
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if s := p.w.Stats(); s.Missed != 0 || s.Concluded[worker.Conclusion{Type: "t", Outcome: "completed"}] != 31 {
		t.Errorf("stats: %+v", s)
	}
	var left int
	if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM notifyworker.workers").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d workers are still on the list, %v", left, err)
	}
	db.NoServerErrors(t)
}

// ledger remembers which product ids the handlers have seen completed.
type ledger struct {
	mu   sync.Mutex
	seen map[string]int
}

func (l *ledger) Handle(_ context.Context, j queue.Job) queue.Outcome {
	if rand.IntN(4) == 0 {
		return queue.Outcome{Kind: queue.Refused, Err: errors.New("in flight"), Delay: time.Duration(rand.IntN(20)) * time.Millisecond}
	}
	var cfg queue.PriceRefreshConfig
	if err := json.Unmarshal(j.Config, &cfg); err != nil {
		return queue.Outcome{Kind: queue.Permanent, Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range cfg.ProductIDs {
		l.seen[string(id)]++
	}
	return queue.Outcome{}
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

func TestTwoWorkersLoseNoProductUnderLoad(t *testing.T) {
	const suppliers, events = 4, 250
	db := pgtest.DB(t)
	pool := db.Pool(t)
	book := &ledger{seen: map[string]int{}}
	types := map[string]queue.TypeSettings{queue.TypePriceRefresh: {BackoffCap: 200 * time.Millisecond}}
	var ps []*process
	for range 2 {
		ps = append(ps, begin(t, db.URL, map[string]queue.Handler{queue.TypePriceRefresh: book}, func(c *worker.Config) { c.Types = types }))
	}
	ps[0].asleep(pool, 2)
	var wg sync.WaitGroup
	for s := range suppliers {
		wg.Go(func() {
			for e := range events {
				_, err := pool.Exec(context.Background(), `SELECT notifyworker.enqueue_price_refresh($1, jsonb_build_array($2::text, $3::text))`,
					fmt.Sprintf("c%d", rand.IntN(5)), fmt.Sprintf("%d-%d", s, e), fmt.Sprintf("%d-%d'", s, e))
				if err != nil {
					t.Errorf("enqueue: %v", err)
					return
				}
				if rand.IntN(10) == 0 {
					time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	await(t, "every product", func() bool { return book.size() == suppliers*events*2 })
	await(t, "an empty table", func() bool {
		var n int
		err := pool.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM notifyworker.jobs WHERE status IN ('PENDING','RUNNING')) + (SELECT count(*) FROM notifyworker.job_additions)`).Scan(&n)
		return err == nil && n == 0
	})
	for _, p := range ps {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if s := p.w.Stats(); s.Missed+s.Rescued+s.Repaired != 0 {
			t.Errorf("stats: %+v", s)
		}
	}
	var failed int
	if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM notifyworker.jobs WHERE status = 'FAILED'").Scan(&failed); err != nil || failed != 0 {
		t.Errorf("%d jobs failed, %v", failed, err)
	}
	db.NoServerErrors(t)
}

func TestAServerRestartIsRiddenOut(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	url := s.SocketURL("postgres")
	migrate(ctx, t, url)
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	p := begin(t, url, map[string]queue.Handler{"t": queue.HandlerFunc(done)}, nil)
	p.asleep(pool, 1)
	for i := range 3 {
		mode := []embedded.Mode{embedded.Fast, embedded.Immediate, embedded.Killed}[i]
		if err := s.Restart(ctx, mode); err != nil {
			t.Fatal(err)
		}
		var id int64
		await(t, "an enqueue after the restart", func() bool {
			return pool.QueryRow(ctx, "SELECT job_id FROM notifyworker.enqueue_job('t')").Scan(&id) == nil
		})
		await(t, "the job after the restart", func() bool { s, _, _ := status(t, pool, id); return s == "COMPLETED" })
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestALockedTableIsWaitedOut(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	p := begin(t, db.URL, map[string]queue.Handler{"t": queue.HandlerFunc(done)}, nil)
	p.asleep(pool, 1)
	id := enqueueJob(t, pool, "t", 300*time.Millisecond)
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "LOCK TABLE notifyworker.jobs IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(7 * time.Second) // beyond the session's lock_timeout: time itself is what is tested
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the job", func() bool { s, _, _ := status(t, pool, id); return s == "COMPLETED" }) // no poll comes for an hour
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestAStopGivesBackWhatRuns(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	running := make(chan struct{}, 10)
	p := begin(t, db.URL, map[string]queue.Handler{"t": queue.HandlerFunc(func(ctx context.Context, _ queue.Job) queue.Outcome {
		running <- struct{}{}
		<-ctx.Done()
		return queue.Outcome{Kind: queue.Failed, Err: ctx.Err()}
	})}, func(c *worker.Config) { c.DrainTimeout = -1 })
	p.asleep(pool, 1)
	id := enqueueJob(t, pool, "t", 0)
	<-running
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if s, attempts, _ := status(t, pool, id); s != "PENDING" || attempts != 0 {
		t.Errorf("job is %s after %d attempts, want PENDING after none", s, attempts)
	}
}

func TestAStolenJobIsLeftAlone(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	lost := make(chan error, 1)
	p := begin(t, db.URL, map[string]queue.Handler{"t": queue.HandlerFunc(func(ctx context.Context, j queue.Job) queue.Outcome {
		exec(t, pool, "UPDATE notifyworker.jobs SET lock_token = gen_random_uuid() WHERE id = $1", j.ID)
		<-ctx.Done()
		lost <- context.Cause(ctx)
		return queue.Outcome{}
	})}, func(c *worker.Config) { c.Types = map[string]queue.TypeSettings{"t": {Lease: 2 * time.Second}} })
	p.asleep(pool, 1)
	id := enqueueJob(t, pool, "t", 0)
	select {
	case cause := <-lost:
		if !errors.Is(cause, queue.ErrLost) {
			t.Errorf("the handler was stopped by %v", cause)
		}
	case <-time.After(patience):
		t.Fatal("the handler was not told")
	}
	if s, _, _ := status(t, pool, id); s == "COMPLETED" {
		t.Error("the job was completed by who had lost it")
	}
	_ = p.stop()
}

func TestAPoisonedResultIsAFailureOfItsOwn(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	p := begin(t, db.URL, map[string]queue.Handler{"t": queue.HandlerFunc(func(_ context.Context, j queue.Job) queue.Outcome {
		if j.ID%2 == 0 {
			return queue.Outcome{Result: json.RawMessage(`{"n":1e999999}`)} // JSON, and no number that jsonb could hold
		}
		return queue.Outcome{}
	})}, func(c *worker.Config) { c.Types = map[string]queue.TypeSettings{"t": {MaxAttempts: 1}} })
	p.asleep(pool, 1)
	exec(t, pool, "SELECT notifyworker.enqueue_job('t') FROM generate_series(1, 20)")
	await(t, "all jobs", func() bool {
		var good, bad int
		err := pool.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'FAILED' AND error LIKE '%can''t be stored%')
			FROM notifyworker.jobs`).Scan(&good, &bad)
		return err == nil && good == 10 && bad == 10
	})
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func migrate(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := migrations.Up(ctx, conn, migrations.Options{Schema: migrations.DefaultSchema, Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
}
