package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"
)

// jobType is what is enqueued where a job is a job; price refreshes have their own.
const jobType = "bench"

// workHere runs a worker in this process until ctx ends: the parts and the settings of notifyworker run.
func (r *run) workHere(ctx context.Context, c *contender) error {
	end := context.WithoutCancel(ctx)
	pool, err := queue.OpenPool(end, r.place.url, "notifyworker bench worker", 8)
	if err != nil {
		return err
	}
	defer pool.Close()
	id := newUUID()
	conn, err := queue.ParseURL(r.place.url)
	if err != nil {
		return err
	}
	store, err := queue.New(queue.Config{DB: pool, Schema: c.schema, WorkerID: id})
	if err != nil {
		return err
	}
	log := zerolog.New(c.troubles).Level(zerolog.WarnLevel)
	bell := listen.NewDoorbell()
	lc := listen.Config{Bell: bell, Mode: listen.PollingOnly, PollEvery: c.poll, Log: log}
	if c.poll == 0 {
		lc.Mode, lc.Conn, lc.Channel, lc.EchoChannel, lc.Seats = listen.Notify, conn, c.schema, listen.EchoChannel(id), c.schema
	}
	var w *worker.Worker // made below, before the listener runs
	lc.Turn = func(key string) time.Duration { return w.Turn(key) }
	lc.Moved = func() { w.Moved() }
	lc.Hands, lc.OpenHands = func() listen.Hands { return w }, store.OpenHands
	listener, err := listen.New(lc)
	if err != nil {
		return err
	}
	w, err = worker.New(worker.Config{
		Store: store, Bell: bell, ID: id, Handlers: map[string]queue.Handler{jobType: queueHandler(c.starts.Handle), queue.TypePriceRefresh: queueHandler(c.starts.Handle)},
		Info: queue.WorkerInfo{Host: "bench", PID: os.Getpid(), Version: "bench"}, Polling: c.poll > 0, Slots: c.slots,
		EchoChannel: lc.EchoChannel, Beaten: listener.EchoSent, Seat: listener, TakesHanded: c.poll == 0, DrainTimeout: time.Second, Log: log,
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.looks = func() worker.Histogram { return w.Stats().LookFull }
	c.mu.Unlock()
	hear, deafen := context.WithCancel(end)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer deafen()
	parts.Go(func() {
		if err := listener.Run(hear); err != nil {
			log.Error().Err(err).Msg("the listener ended")
		}
	})
	return w.Run(ctx, end)
}

// queueHandler makes a handler of a function.
type queueHandler func(context.Context, queue.Job) queue.Outcome

func (f queueHandler) Handle(ctx context.Context, j queue.Job) queue.Outcome { return f(ctx, j) }

// workFloor is the least that a worker can do: it hears, and reserves by one prepared statement. Nothing is concluded, rescued
// or looked for, so nothing that really works jobs can be much faster.
func (r *run) workFloor(ctx context.Context, c *contender) error {
	return r.place.withConns(ctx, 2, func(conns []*pgx.Conn) error {
		ears, hands := conns[0], conns[1]
		if _, err := ears.Exec(ctx, "LISTEN "+pgx.Identifier{c.schema}.Sanitize()); err != nil {
			return err
		}
		jobs := pgx.Identifier{c.schema, "jobs"}.Sanitize()
		if _, err := hands.Prepare(ctx, "reserve", `UPDATE `+jobs+` SET status = 'RUNNING', lock_token = gen_random_uuid(), started_at = clock_timestamp()
			WHERE id = (SELECT id FROM `+jobs+` WHERE status = 'PENDING' AND run_after <= now() ORDER BY run_after, id LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING id, config, lock_token`); err != nil {
			return err
		}
		close(c.ready)
		for {
			if _, err := ears.WaitForNotification(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			var id int64
			var config []byte
			var token string
			if err := hands.QueryRow(context.WithoutCancel(ctx), "reserve").Scan(&id, &config, &token); err != nil {
				return err
			}
			c.starts.begin(id, time.Now())
		}
	})
}

// troubles counts what workers log as warnings and errors, a line each, and keeps the first.
type troubles struct {
	mu    sync.Mutex
	muted bool
	n     int
	first string
}

func (t *troubles) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.muted {
		return len(p), nil
	}
	lines := bytes.Count(p, []byte("\n"))
	t.n += lines
	if t.first == "" {
		line, _, _ := bytes.Cut(p, []byte("\n"))
		t.first = string(bytes.TrimSpace(line))
	}
	return len(p), nil
}

func (t *troubles) mute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.muted = true
}

func (t *troubles) listen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.muted = false
}

func (t *troubles) count() (n int, first string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n, t.first
}

func (t *troubles) String() string {
	if n, first := t.count(); n > 0 {
		return first
	}
	return "nothing"
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
