package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// fleet is many workers in this process, each with connections of its own.
type fleet struct {
	tb         testing.TB
	url        string
	pool       *pgxpool.Pool // the clients'
	statements atomic.Int64  // of the workers
	begun      sync.Map      // job id → when its handler was called
	members    []*member
	paced      func(*worker.Worker) // what a member is like, nil: as usual
	beat       time.Duration        // by it they know how many they are; 0 means as usual
}

type member struct {
	w    *worker.Worker
	l    *listen.Listener
	stop func()
}

// TraceQueryStart counts.
func (f *fleet) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	f.statements.Add(1)
	return ctx
}

// TraceQueryEnd is the other half of a tracer.
func (f *fleet) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// newFleet has a server with room for many.
func newFleet(tb testing.TB) *fleet {
	tb.Helper()
	s := pgtest.Server(tb, embedded.Config{Settings: map[string]string{
		"max_connections": "900", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
	}})
	f := &fleet{tb: tb, url: s.SocketURL("postgres")}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, f.url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := migrations.Up(ctx, conn, migrations.Options{Schema: migrations.DefaultSchema, Triggers: triggers.Files}); err != nil {
		tb.Fatal(err)
	}
	if f.pool, err = queue.OpenPool(ctx, f.url, "client", 16); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.pool.Close)
	return f
}

// join adds a worker.
func (f *fleet) join(seats string, slots int, handler queue.HandlerFunc) *member {
	f.tb.Helper()
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(f.url)
	if err != nil {
		f.tb.Fatal(err)
	}
	cfg.MaxConns, cfg.ConnConfig.Tracer = 2, f
	queue.Harden(cfg.ConnConfig, "fleet")
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		f.tb.Fatal(err)
	}
	id := newID(f.tb)
	store, err := queue.New(queue.Config{DB: pool, WorkerID: id})
	if err != nil {
		f.tb.Fatal(err)
	}
	bell := listen.NewDoorbell()
	var w *worker.Worker
	conn := cfg.ConnConfig.Copy()
	conn.RuntimeParams["application_name"] = "notifyworker listen"
	l, err := listen.New(listen.Config{
		Bell: bell, Conn: conn, Channel: migrations.DefaultSchema, EchoChannel: listen.EchoChannel(id), Seats: seats,
		Turn: func(key string) time.Duration { return w.Turn(key) }, Moved: func() { w.Moved() }, Hands: func() listen.Hands { return w }, OpenHands: store.OpenHands, Log: zerolog.Nop(),
	})
	if err != nil {
		f.tb.Fatal(err)
	}
	w, err = worker.New(worker.Config{
		Store: store, Bell: bell, Seat: l, TakesHanded: true, ID: id, BeatEvery: f.beat, EchoChannel: listen.EchoChannel(id), Beaten: l.EchoSent, Slots: slots,
		Handlers: map[string]queue.Handler{"t": handler}, Log: zerolog.Nop(),
	})
	if err != nil {
		f.tb.Fatal(err)
	}
	if f.paced != nil {
		f.paced(w)
	}
	run, quiet := context.WithCancel(ctx)
	stop, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.Run(run) })
	wg.Go(func() { defer quiet(); _ = w.Run(stop, ctx) })
	m := &member{w: w, l: l, stop: sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		pool.Close()
		bell.Close()
	})}
	f.members = append(f.members, m)
	return m
}

// leave stops all at once.
func (f *fleet) leave() {
	var wg sync.WaitGroup
	for _, m := range f.members {
		wg.Go(m.stop)
	}
	wg.Wait()
}

// endAListener stops one of those that listen, and forgets it.
func (f *fleet) endAListener() {
	gone := slices.IndexFunc(f.members, func(m *member) bool { return m.l.Hearing() == listen.Listening })
	f.members[gone].stop()
	f.members = slices.Delete(f.members, gone, gone+1)
}

// settled waits until all sleep: so many of them listen, and each of these wants to be told.
func (f *fleet) settled(listening int) {
	f.tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		l, r := f.count()
		var wanting int
		err := f.pool.QueryRow(context.Background(), "SELECT count(*) FROM notifyworker.workers WHERE wants_notify").Scan(&wanting)
		if err == nil && l == listening && r == len(f.members)-listening && wanting == listening {
			return
		}
		if time.Now().After(deadline) {
			f.tb.Fatalf("%d listen, %d are in reserve, %d of all want to be told, %v; want %d of %d to listen", l, r, wanting, err, listening, len(f.members))
		}
	}
}

func (f *fleet) count() (listening, reserve int) {
	for _, m := range f.members {
		switch m.l.Hearing() {
		case listen.Listening:
			listening++
		case listen.Reserve:
			reserve++
		}
	}
	return listening, reserve
}

// joinHeld adds workers whose jobs run until release is closed; each says so when it begins.
func (f *fleet) joinHeld(n, slots int) (began, release chan struct{}) {
	f.tb.Helper()
	began, release = make(chan struct{}, 10*n*slots), make(chan struct{})
	for range n {
		f.join(migrations.DefaultSchema, slots, func(context.Context, queue.Job) queue.Outcome {
			began <- struct{}{}
			<-release
			return queue.Outcome{}
		})
	}
	return began, release
}

// fillOneByOne enqueues so many jobs, each once the last one has begun.
func (f *fleet) fillOneByOne(jobs int, began <-chan struct{}) {
	f.tb.Helper()
	for i := range jobs {
		if _, err := f.pool.Exec(context.Background(), "SELECT notifyworker.enqueue_job('t')"); err != nil {
			f.tb.Fatal(err)
		}
		select {
		case <-began:
		case <-time.After(patience):
			l, r := f.count()
			f.tb.Fatalf("job %d does not start: %d listen, %d in reserve", i+1, l, r)
		}
	}
}

func (f *fleet) noneMissed() {
	f.tb.Helper()
	for _, m := range f.members {
		if s := m.w.Stats(); s.Missed > 0 {
			f.tb.Errorf("%d found late, by the poll", s.Missed)
		}
	}
}

// BenchmarkFleet enqueues at full speed beside idle workers, then job by job. The workers are goroutines, but their
// connections are their own, so the server sees as many sessions as it would of processes.
func BenchmarkFleet(b *testing.B) {
	for _, n := range []int{1, 8, 32, 64, 256} {
		for name, seats := range map[string]string{"all listen": "", "four seats": migrations.DefaultSchema} {
			b.Run(fmt.Sprintf("%d idle workers/%s", n, name), func(b *testing.B) { besideIdle(b, n, seats) })
		}
	}
}

// BenchmarkFleetAtWork has clients enqueue at a steady rate.
func BenchmarkFleetAtWork(b *testing.B) {
	for _, n := range []int{1, 32} {
		for name, seats := range map[string]string{"all listen": "", "four seats": migrations.DefaultSchema} {
			b.Run(fmt.Sprintf("%d workers/%s", n, name), func(b *testing.B) {
				f := newFleet(b)
				defer f.leave()
				f.idle(n, seats)
				f.enqueueAndWait(b, 8, 625, 16*time.Millisecond)
			})
		}
	}
}

func besideIdle(b *testing.B, n int, seats string) {
	f := newFleet(b)
	defer f.leave()
	f.idle(n, seats)
	f.enqueueAndWait(b, 1, 200, 20*time.Millisecond)
	var enqueued atomic.Int64
	const clients, during = 16, 3 * time.Second
	var wg sync.WaitGroup
	end := time.Now().Add(during)
	for range clients {
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := f.pool.Exec(context.Background(), "SELECT notifyworker.enqueue_job('t', delay => '1 hour')"); err != nil {
					b.Error(err)
					return
				}
				enqueued.Add(1)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(enqueued.Load())/during.Seconds(), "enqueued/s")
}

// idle has so many workers join, and waits until they know of each other.
func (f *fleet) idle(n int, seats string) {
	for range n {
		f.join(seats, 8, func(_ context.Context, j queue.Job) queue.Outcome {
			f.begun.Store(j.ID, time.Now())
			return queue.Outcome{}
		})
	}
	listening := n
	if seats != "" && n > listen.Everybody {
		listening = 4
	}
	f.settled(listening)
	for _, m := range f.members {
		for m.w.Stats().LastBeat.IsZero() {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// enqueueAndWait has clients enqueue so many jobs each, and reports how long after their commits the jobs began.
func (f *fleet) enqueueAndWait(b *testing.B, clients, jobs int, pause time.Duration) {
	b.Helper()
	before := f.statements.Load()
	var committed sync.Map
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			began := time.Now()
			for i := range jobs {
				var id int64
				if err := f.pool.QueryRow(context.Background(), "SELECT job_id FROM notifyworker.enqueue_job('t')").Scan(&id); err != nil {
					b.Error(err)
					return
				}
				committed.Store(id, time.Now())
				time.Sleep(time.Until(began.Add(time.Duration(i+1) * pause)))
			}
		})
	}
	wg.Wait()
	if n := f.report(b, &committed, before); n != clients*jobs {
		b.Errorf("%d of %d jobs were enqueued", n, clients*jobs)
	}
}

// report waits until all that was committed has begun, and reports how long after its commit, and the statements since so many.
// It returns how many jobs there were.
func (f *fleet) report(b *testing.B, committed *sync.Map, statements int64) int {
	b.Helper()
	all := 0
	committed.Range(func(any, any) bool { all++; return true })
	var took []float64
	for deadline := time.Now().Add(patience); len(took) < all && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		took = took[:0]
		committed.Range(func(id, at any) bool {
			if started, ok := f.begun.Load(id); ok {
				took = append(took, started.(time.Time).Sub(at.(time.Time)).Seconds()*1000)
			}
			return true
		})
	}
	if len(took) < all {
		b.Fatalf("%d of %d jobs began", len(took), all)
	}
	slices.Sort(took)
	b.ReportMetric(float64(f.statements.Load()-statements)/float64(all), "statements/job")
	b.ReportMetric(took[all/2], "p50-ms")
	b.ReportMetric(took[all*99/100], "p99-ms")
	b.ReportMetric(0, "ns/op")
	return all
}

// Of many only a few listen, and a busy one's place is taken by one in reserve, down to the last.
func TestOfManyOnlyAFewListenAndTheLastOneIsWokenToo(t *testing.T) {
	f := newFleet(t)
	f.beat = time.Second
	defer f.leave()
	const n = 12
	began, release := f.joinHeld(n, 1)
	f.settled(4)
	ctx := context.Background()
	var listening, has, waits, pinning int
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // who does not listen any more may still be there
		err := f.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE application_name = 'notifyworker listen'),
			count(*) FILTER (WHERE application_name = 'notifyworker seat' AND state = 'idle in transaction'),
			count(*) FILTER (WHERE application_name = 'notifyworker seat' AND wait_event_type = 'Lock'),
			count(*) FILTER (WHERE application_name = 'notifyworker seat' AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL))
			FROM pg_stat_activity`).Scan(&listening, &has, &waits, &pinning)
		if err == nil && listening == 4 && has == 4 && waits == n-4 && pinning == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions listen, %d have a seat, %d wait for one, %d of those hold vacuum back, %v", listening, has, waits, pinning, err)
		}
	}
	f.fillOneByOne(n, began)
	close(release)
	f.settled(4)
	f.noneMissed()
}

// A burst that fills all who listen, and more, reaches those in reserve.
func TestABurstReachesEveryReserve(t *testing.T) {
	f := newFleet(t)
	f.beat = time.Second
	defer f.leave()
	const n = 20
	began, release := f.joinHeld(n, 2)
	f.settled(4)
	if _, err := f.pool.Exec(context.Background(), "SELECT notifyworker.enqueue_job('t') FROM generate_series(1, $1)", 2*n); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	for i := range 2 * n {
		select {
		case <-began:
		case <-time.After(patience):
			t.Fatalf("only %d of %d jobs run", i, 2*n)
		}
	}
	t.Logf("the last of %d jobs on %d workers began after %v", 2*n, n, time.Since(at))
	close(release)
	f.settled(4)
}

// Workers that are full from their first look on have never slept. They are in nobody's way.
func TestWhoIsFullFromTheBeginningTakesNoSeat(t *testing.T) {
	f := newFleet(t)
	f.beat = time.Second
	defer f.leave()
	const n, full = 14, 8
	if _, err := f.pool.Exec(context.Background(), "SELECT notifyworker.enqueue_job('t') FROM generate_series(1, $1)", full); err != nil {
		t.Fatal(err)
	}
	began, release := f.joinHeld(n, 1)
	for range full {
		<-began
	}
	f.settled(4) // of the six that are idle, and so each of the four wants to be told
	f.fillOneByOne(n-full, began)
	close(release)
	f.settled(4)
	f.noneMissed()
}

// Listeners that end, by themselves or because the server ends their session, are followed by others.
func TestASeatIsTakenOver(t *testing.T) {
	f := newFleet(t)
	f.beat = time.Second
	defer f.leave()
	for range 11 {
		f.join(migrations.DefaultSchema, 1, func(context.Context, queue.Job) queue.Outcome { return queue.Outcome{} })
	}
	f.settled(4)
	f.endAListener()
	f.settled(4)
	if _, err := f.pool.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM notifyworker.seat_locks() WHERE granted"); err != nil {
		t.Fatal(err)
	}
	f.settled(4)
}

// Where the server gives out no seats, all listen.
func TestWhereSeatsAreRefusedAllListen(t *testing.T) {
	f := newFleet(t)
	f.beat = time.Second
	defer f.leave()
	began := make(chan struct{}, 10)
	for range 10 {
		f.join("nowhere", 1, func(context.Context, queue.Job) queue.Outcome {
			began <- struct{}{}
			return queue.Outcome{}
		})
	}
	for _, m := range f.members {
		for m.w.Stats().LastBeat.IsZero() { // by which it knows how many they are
			time.Sleep(10 * time.Millisecond)
		}
	}
	f.settled(10)
	if _, err := f.pool.Exec(context.Background(), "SELECT notifyworker.enqueue_job('t')"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-began:
	case <-time.After(patience):
		t.Fatal("a job does not start")
	}
}
