package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"
)

// work puts the parts of a worker together, runs them until stop ends, and returns when all of them have ended.
func (c *runCmd) work(stop, end context.Context, s workerSettings, log zerolog.Logger) error {
	pool, err := queue.OpenPool(end, c.DatabaseURL, "notifyworker", s.connections())
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer closePool(pool)
	id := newUUID()
	store, err := queue.New(queue.Config{DB: pool, Schema: s.schema, WorkerID: id, Types: s.types, MaxIDs: s.maxIDs})
	if err != nil {
		return err
	}
	handlers := map[string]queue.Handler{}
	bell := listen.NewDoorbell()
	lc := listen.Config{Bell: bell, Mode: listen.Notify, PollEvery: s.pollEvery, Conn: s.listenConn, Channel: s.schema,
		EchoChannel: "notifyworker_echo_" + id, Log: log.With().Str("part", "listen").Logger()}
	if s.polling {
		lc.Mode, lc.EchoChannel = listen.PollingOnly, ""
	}
	listener, err := listen.New(lc)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	w, err := worker.New(worker.Config{
		Store: store, Bell: bell, Handlers: handlers, Types: s.types, ID: id,
		Info:    queue.WorkerInfo{Host: host, PID: os.Getpid(), Version: version()},
		Polling: s.polling, Slots: s.slots, DrainTimeout: noneIsNegative(s.drain), EchoChannel: lc.EchoChannel, Beaten: listener.EchoSent,
		Log: log.With().Str("part", "worker").Logger(),
	})
	if err != nil {
		return err
	}

	g, running := errgroup.WithContext(stop) // a part that fails stops the others
	hear, deafen := context.WithCancel(end)  // the listener is needed as long as the worker
	defer deafen()
	g.Go(func() error { return listener.Run(hear) })
	g.Go(func() error {
		defer deafen()
		return w.Run(running, end)
	})
	return g.Wait()
}

// connections is how many the pool may need: for the worker's own calls, and one for each SQL function that runs.
func (s workerSettings) connections() int {
	n := 6
	if s.engine != nil {
		n += s.engine.refreshes
	}
	for _, h := range s.handlers {
		if h.target.function != "" {
			return n + s.slots
		}
	}
	return n
}

// closePool does not wait for ever for a connection that a hanging call holds.
func closePool(pool *pgxpool.Pool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pool.Close()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
}

// noneIsNegative turns a configured zero into what the parts take for "none".
func noneIsNegative(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// String is for the log.
func (e *engineSettings) String() string {
	if e == nil {
		return "none"
	}
	return e.target.String()
}
