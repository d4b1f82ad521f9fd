package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"notifyworker/integration/schedule"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// sleeper is a worker that falls asleep: it wishes to be told, waits until every commit is over that may have missed the
// wish, looks, and sleeps. It may sleep if it found nothing, and then it must be told of what comes.
type sleeper struct {
	id    string
	found bool
}

func (s *sleeper) session() schedule.Session {
	store := func(c *pgx.Conn) *queue.Store {
		st, err := queue.New(queue.Config{DB: c, WorkerID: s.id})
		if err != nil {
			panic(err) // the configuration is on the line above
		}
		return st
	}
	return schedule.Session{Name: "worker " + s.id[:1], Worker: true, Steps: []schedule.Step{
		{Name: "wish", Do: func(ctx context.Context, c *pgx.Conn) error {
			_, err := store(c).WantNotify(ctx, true, false)
			return err
		}},
		// Longer than a worker waits in earnest, so that every schedule comes to its end.
		{Name: "barrier", Waits: schedule.ForAnybody, Do: func(ctx context.Context, c *pgx.Conn) error {
			var ok bool
			err := c.QueryRow(ctx, `SELECT notifyworker.barrier(30000)`).Scan(&ok)
			if err == nil && !ok {
				err = errors.New("the barrier was not had")
			}
			return err
		}},
		{Name: "look", Do: func(ctx context.Context, c *pgx.Conn) error {
			r, err := store(c).Reserve(ctx, 10)
			s.found = len(r.Jobs) > 0
			return err
		}},
	}}
}

// committer is a client whose commit makes work.
type committer struct {
	name  string
	setup string // before the schedule
	iso   string
	steps []string // then it commits
}

const insertsNow = "SET CONSTRAINTS ALL IMMEDIATE"

var committers = []committer{
	{name: "enqueues", steps: []string{`SELECT notifyworker.enqueue_price_refresh('c', '["p"]')`}},
	{name: "enqueues a job of another type", steps: []string{`SELECT notifyworker.enqueue_job('t')`}},
	{name: "inserts", steps: []string{`INSERT INTO notifyworker.jobs (type) VALUES ('t')`}},
	{name: "lets the triggers run early", steps: []string{`SELECT notifyworker.enqueue_price_refresh('c', '["p"]')`, insertsNow}},
	{name: "lets the triggers run early, and inserts more", steps: []string{`SELECT notifyworker.enqueue_job('t')`, insertsNow, `SELECT notifyworker.enqueue_job('u')`}},
	{name: "lets the triggers run early in a savepoint", steps: []string{`SELECT notifyworker.enqueue_job('t')`, `SAVEPOINT s`, insertsNow, `RELEASE s`}},
	{name: "lets the triggers run early in a savepoint that it gives up", steps: []string{`SELECT notifyworker.enqueue_job('t')`, `SAVEPOINT s`, insertsNow, `ROLLBACK TO s`}},
	{name: "enqueues at REPEATABLE READ", iso: repeatableRead, steps: []string{`SELECT FROM notifyworker.workers`, `SELECT notifyworker.enqueue_price_refresh('c', '["p"]')`}},
	{name: "inserts at SERIALIZABLE", iso: serializable, steps: []string{`SELECT FROM notifyworker.workers`, `INSERT INTO notifyworker.jobs (type) VALUES ('t')`}},
	{name: "makes a job due", setup: `INSERT INTO notifyworker.jobs (type, run_after) VALUES ('t', now() + interval '1 h')`, steps: []string{`UPDATE notifyworker.jobs SET run_after = now()`}},
	{name: "makes a job PENDING", setup: `INSERT INTO notifyworker.jobs (type, status, finished_at) VALUES ('t', 'FAILED', now())`, steps: []string{`UPDATE notifyworker.jobs SET status = 'PENDING', finished_at = NULL`}},
	{name: "replays", setup: `INSERT INTO notifyworker.jobs (type, status, finished_at, config) VALUES ('PRICE_REFRESH', 'FAILED', now(), '{"catalogId": "c", "productIds": ["p"]}')`, steps: []string{`SELECT notifyworker.replay(id) FROM notifyworker.jobs`}},
	{name: "marks an addition", setup: `INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids) VALUES ('00000000-0000-0000-0000-000000000000', 'c', '["p"]')`, steps: []string{`SELECT notifyworker.sweep()`}},
}

func (k committer) session() schedule.Session {
	begin := "BEGIN ISOLATION LEVEL " + readCommitted
	if k.iso != "" {
		begin = "BEGIN ISOLATION LEVEL " + k.iso
	}
	s := schedule.Session{Name: "client"}
	for i, sql := range append(k.steps, "COMMIT") {
		s.Steps = append(s.Steps, schedule.Step{Name: sql, Do: func(ctx context.Context, c *pgx.Conn) error {
			if i == 0 {
				if _, err := c.Exec(ctx, begin); err != nil {
					return err
				}
			}
			_, err := c.Exec(ctx, sql)
			return err
		}})
	}
	return s
}

// bedroom is a database in which workers fall asleep, with an ear on the channel.
type bedroom struct {
	*schedule.Stage
	ear *pgx.Conn
}

func newBedroom(t *testing.T, sessions int) *bedroom {
	t.Helper()
	db := pgtest.DB(t)
	st, err := schedule.Connect(t.Context(), db.URL, sessions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close(context.Background()) })
	b := &bedroom{st, db.Conn(t)}
	if _, err := b.ear.Exec(t.Context(), `LISTEN notifyworker; LISTEN marker`); err != nil {
		t.Fatal(err)
	}
	return b
}

// heard is how many notifications of work came since the last call. A marker sent now comes after all of them.
func (b *bedroom) heard(ctx context.Context) (int, error) {
	if _, err := b.Observer.Exec(ctx, `NOTIFY marker`); err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		got, err := b.ear.WaitForNotification(ctx)
		if err != nil || got.Channel == "marker" {
			return n, err
		}
	}
}

func (b *bedroom) prepare(ctx context.Context, setup string, workers ...*sleeper) error {
	sql := `DELETE FROM notifyworker.job_additions; DELETE FROM notifyworker.jobs; DELETE FROM notifyworker.workers;` + setup
	if _, err := b.Observer.Exec(ctx, sql); err != nil {
		return err
	}
	for _, w := range workers {
		_, err := b.Observer.Exec(ctx, `INSERT INTO notifyworker.workers (id, host, pid, version, slots) VALUES ($1, 'h', 1, 'v', 1)`, w.id)
		if err != nil {
			return err
		}
	}
	var sure bool // commits don't look in workers
	if _, err := b.Observer.Exec(ctx, `SELECT notifyworker.nobody_sleeps()`); err != nil {
		return err
	}
	if err := b.Observer.QueryRow(ctx, `SELECT pg_sequence_last_value('notifyworker.no_sleepers') IS NOT NULL`).Scan(&sure); err != nil {
		return err
	}
	if !sure {
		return errors.New("it is not said that nobody sleeps")
	}
	_, err := b.heard(ctx) // what the setup itself has sent
	return err
}

// riser is a worker that takes its wish back, and says that nobody sleeps; it looks for nothing.
func riser(id string) schedule.Session {
	s := schedule.Session{Name: "riser"}
	for _, sql := range []string{
		`UPDATE notifyworker.workers SET wants_notify = true WHERE id = '` + id + `'`,
		`UPDATE notifyworker.workers SET wants_notify = false WHERE id = '` + id + `'`,
		`SELECT notifyworker.nobody_sleeps()`,
	} {
		s.Steps = append(s.Steps, schedule.Step{Name: sql, Do: func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, sql)
			return err
		}})
	}
	return s
}

// A worker that falls asleep while a client commits finds the work or is told of it, in every order; the client never waits.
func TestNoWakeUpIsLostInAnyOrder(t *testing.T) {
	for _, k := range committers {
		t.Run("one worker, a client "+k.name, func(t *testing.T) {
			t.Parallel()
			everyNight(t, k, nil, workerID)
		})
	}
	t.Run("one worker, a client, another worker rises", func(t *testing.T) {
		t.Parallel()
		rises := riser("bbbbbbbb-0000-4000-8000-000000000002")
		everyNight(t, committers[2], &rises, workerID)
	})
	t.Run("two workers, a client", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			return // 1,680 orders
		}
		everyNight(t, committers[3], nil, workerID, "bbbbbbbb-0000-4000-8000-000000000002")
	})
}

func everyNight(t *testing.T, k committer, rises *schedule.Session, ids ...string) {
	counts, played := []int{len(k.steps) + 1}, 0
	for range ids {
		counts = append(counts, 3)
	}
	if rises != nil {
		counts = append(counts, len(rises.Steps))
	}
	b := newBedroom(t, len(counts))
	for order := range schedule.Orders(counts...) {
		if *onlyOrder != "" && order.String() != *onlyOrder {
			continue
		}
		var workers []*sleeper
		sessions := []schedule.Session{k.session()}
		for _, id := range ids {
			w := &sleeper{id: id}
			workers = append(workers, w)
			sessions = append(sessions, w.session())
		}
		if rises != nil {
			sessions = append(sessions, *rises)
		}
		if err := b.prepare(t.Context(), k.setup, workers...); err != nil {
			t.Fatal(err)
		}
		err := b.Play(t.Context(), sessions, order)
		if err == nil {
			err = b.woken(t.Context(), workers)
		}
		if err != nil {
			t.Fatalf("in the order %s: %v", order, err)
		}
		played++
		schedules.Add(1)
	}
	t.Logf("%d schedules", played)
}

func (b *bedroom) woken(ctx context.Context, workers []*sleeper) error {
	n, err := b.heard(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.found {
			return nil
		}
	}
	if n == 0 {
		return fmt.Errorf("a wake-up is lost: nobody found the work, and nobody was told")
	}
	return nil
}

func TestNobodyIsToldWhileNobodyWishes(t *testing.T) {
	for _, k := range committers {
		if k.iso != "" {
			continue // an old snapshot shows no wish: such a commit always notifies
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			b := newBedroom(t, 1)
			w := &sleeper{id: workerID}
			if err := b.prepare(t.Context(), k.setup, w); err != nil {
				t.Fatal(err)
			}
			s := k.session()
			order := make(schedule.Order, len(s.Steps))
			if err := b.Play(t.Context(), []schedule.Session{s}, order); err != nil {
				t.Fatal(err)
			}
			if n, err := b.heard(t.Context()); err != nil || n != 0 {
				t.Errorf("%d notifications, %v", n, err)
			}
		})
	}
}

func TestACommitNotifiesAtOnceWhileAWorkerHoldsTheBarrier(t *testing.T) {
	b := newBedroom(t, 2)
	w := &sleeper{id: workerID}
	if err := b.prepare(t.Context(), ``, w); err != nil {
		t.Fatal(err)
	}
	holds := schedule.Session{Name: "worker", Worker: true, Steps: []schedule.Step{
		{Name: "barrier", Do: func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, `BEGIN; SELECT notifyworker.barrier(1000)`)
			return err
		}},
		{Name: "commit", Do: func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, `COMMIT`)
			return err
		}},
	}}
	// The client's steps may wait for nobody; that they don't is the point.
	if err := b.Play(t.Context(), []schedule.Session{holds, committers[0].session()}, schedule.Order{0, 1, 1, 0}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.heard(t.Context()); err != nil || n != 1 {
		t.Errorf("%d notifications, %v", n, err)
	}
}

func TestAnOpenTransactionHoldsNoBarrier(t *testing.T) {
	tb := newTable(t, queue.Config{})
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_price_refresh('c', '["p"]'), notifyworker.enqueue_job('t')`)
	tb.run(client, `INSERT INTO notifyworker.jobs (type) VALUES ('u')`)
	if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
		t.Errorf("the barrier: %v, %v", ok, err)
	}
	tb.commit(client)
}

func TestABarrierThatIsHeldForLongSaysSo(t *testing.T) {
	tb := newTable(t, queue.Config{})
	client := tb.begin(readCommitted)
	tb.run(client, `SELECT notifyworker.enqueue_job('t')`)
	tb.run(client, insertsNow)
	var ok bool
	if err := tb.pool.QueryRow(t.Context(), `SELECT notifyworker.barrier(20)`).Scan(&ok); err != nil || ok {
		t.Errorf("the barrier: %v, %v: a worker would trust its sleep", ok, err)
	}
	tb.commit(client)
	if err := tb.pool.QueryRow(t.Context(), `SELECT notifyworker.barrier(20000)`).Scan(&ok); err != nil || !ok {
		t.Errorf("the barrier: %v, %v", ok, err)
	}
}
