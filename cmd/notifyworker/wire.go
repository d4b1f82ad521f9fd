package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"notifyworker/internal/bench"
	"notifyworker/internal/engine"
	"notifyworker/internal/handler"
	"notifyworker/internal/listen"
	"notifyworker/internal/observe"
	"notifyworker/internal/queue"
	"notifyworker/internal/retention"
	"notifyworker/internal/webcall"
	"notifyworker/internal/worker"
)

// work puts the parts of one database's worker together, calls begun when they are, runs them until stop ends, and returns
// when all of them have ended.
func (s workerSettings) work(stop, end context.Context, on shard, watch *observe.Database, begun func(), log zerolog.Logger) error {
	var sent queue.Sent
	pool, err := queue.OpenCountedPool(end, on.url, "notifyworker", s.connections(), &sent)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer closePool(pool)
	id := newUUID()
	ears := on.listenConn.Copy()
	if ears.RuntimeParams["application_name"] == applicationName {
		ears.RuntimeParams["application_name"] += " listen"
	}
	sent.By(ears)
	store, err := queue.New(queue.Config{DB: pool, Schema: s.schema, WorkerID: id, Types: s.types, MaxIDs: s.maxIDs})
	if err != nil {
		return err
	}
	eng, err := s.newEngine(pool, on, id, log)
	if err != nil {
		return err
	}
	handlers, err := s.newHandlers(stop, pool, on)
	if err != nil {
		return err
	}
	maintain, maintainAll := []func(context.Context){watch.LookForPins}, []func(context.Context){}
	if eng != nil {
		if err := eng.Check(stop); err != nil {
			return err
		}
		handlers[queue.TypePriceRefresh] = eng.Handler()
		taking := func(takeOver func(context.Context) (int, error)) func(context.Context) {
			return func(ctx context.Context) {
				if _, err := takeOver(ctx); err != nil && ctx.Err() == nil {
					log.Warn().Err(err).Msg("refreshes of dead workers not taken over")
				}
			}
		}
		maintain = append(maintain, taking(eng.TakeOver))
		maintainAll = append(maintainAll, taking(eng.TakeOverAll))
	}
	bell := listen.NewDoorbell()
	lc := listen.Config{
		Bell: bell, Mode: listen.Notify, PollEvery: s.pollEvery, Conn: ears, Channel: s.schema,
		EchoChannel: listen.EchoChannel(id), Seats: s.schema, Log: log.With().Str("part", "listen").Logger(),
	}
	if s.polling {
		lc.Mode, lc.EchoChannel, lc.Seats = listen.PollingOnly, "", ""
	}
	var w *worker.Worker // made below, before the listener runs
	lc.Turn = func(key string) time.Duration { return w.Turn(key) }
	lc.Moved = func() { w.Moved() }
	lc.Hands, lc.OpenHands = func() listen.Hands { return w }, store.OpenHands
	listener, err := listen.New(lc)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	w, err = worker.New(worker.Config{
		Store: store, Bell: bell, Handlers: handlers, Types: s.types, ID: id,
		Info:    queue.WorkerInfo{Host: host, PID: os.Getpid(), Version: version()},
		Polling: s.polling, Slots: s.slots, DrainTimeout: noneIsNegative(s.drain), EchoChannel: lc.EchoChannel, Beaten: listener.EchoSent,
		Seat: listener, TakesHanded: !s.polling, Maintain: maintain, MaintainAll: maintainAll, Log: log.With().Str("part", "worker").Logger(),
	})
	if err != nil {
		return err
	}
	chore, err := retention.New(retention.Config{Store: store, Keep: s.retain, Log: log.With().Str("part", "retention").Logger()})
	if err != nil {
		return err
	}
	parts := observe.Parts{Worker: w, Listener: listener, Pool: pool, Sent: &sent, Store: store, Retention: chore, Schema: rightSchema(pool, s.schema), Types: handled(handlers)}
	if eng != nil {
		parts.Engine = eng
	}
	watch.Watch(parts)
	begun()

	g, running := errgroup.WithContext(stop) // a part that fails stops the others
	hear, deafen := context.WithCancel(end)  // the listener is needed as long as the worker
	defer deafen()
	g.Go(func() error { return listener.Run(hear) })
	if eng != nil {
		g.Go(func() error { return eng.Run(running) })
		<-eng.Ready() // or the first jobs would be refused
	}
	g.Go(func() error {
		defer deafen()
		return w.Run(running, end)
	})
	g.Go(func() error { return chore.Run(running) })
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-end.Done(): // at once: what still runs is left to its lease
		return context.Cause(end)
	}
}

// newEngine is nil when no recomputation is configured.
func (s workerSettings) newEngine(pool *pgxpool.Pool, on shard, id string, log zerolog.Logger) (*engine.Engine, error) {
	e := s.engine
	if e == nil {
		return nil, nil
	}
	c := engine.Config{
		Pool: pool, Schema: s.schema, WorkerID: id, ArticleFunction: e.article, Refreshes: e.refreshes, Queue: e.queue,
		Chunk: e.chunk, Lease: s.types[""].Lease, DrainTimeout: max(s.drain, time.Millisecond), Log: log.With().Str("part", "engine").Logger(),
	}
	if e.product != "" {
		c.Products = &engine.SQLProducts{Name: e.product, Pool: pool, Timeout: e.timeout}
	}
	var err error
	if e.target.function != "" {
		c.Recompute, err = engine.NewSQLFunction(engine.SQLFunctionConfig{Name: e.target.function, Pool: pool, Timeout: e.timeout, SameDatabase: true})
	} else {
		c.Recompute, err = engine.NewHTTPEndpoint(s.endpoint(e.target.url, e.timeout, on))
	}
	if err != nil {
		return nil, fmt.Errorf("recompute: %w", err)
	}
	return engine.New(c)
}

// newHandlers makes the handlers of all types but PRICE_REFRESH, and makes sure that their functions exist.
func (s workerSettings) newHandlers(ctx context.Context, pool *pgxpool.Pool, on shard) (map[string]queue.Handler, error) {
	handlers := map[string]queue.Handler{}
	if s.bench != "" {
		handlers = bench.Handlers(os.Stdout, s.bench == "tell")
	}
	var errs []error
	for name, h := range s.handlers {
		var made queue.Handler
		var err error
		if h.target.function != "" {
			var f *handler.SQL
			if f, err = handler.NewSQL(handler.SQLConfig{Name: h.target.function, Pool: pool, Timeout: h.timeout}); err == nil {
				err = f.Check(ctx)
			}
			made = f
		} else {
			made, err = handler.NewHTTP(s.endpoint(h.target.url, h.timeout, on))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("handler of %s: %w", name, err))
			continue
		}
		handlers[name] = made
	}
	return handlers, errors.Join(errs...)
}

// endpoint says how an endpoint is called: it is told the database, since with several of them a number alone names no job.
func (s workerSettings) endpoint(url string, timeout time.Duration, on shard) webcall.Config {
	c := webcall.Config{URL: url, Timeout: timeout, Header: http.Header{"Notifyworker-Database": {on.name}}}
	if len(s.shards) > 1 {
		c.KeyPrefix = on.name + "/"
	}
	return c
}

// connections is how many the pool may need: for the worker's own calls, and one for each SQL function that runs.
func (s workerSettings) connections() int {
	n := 8
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
	case <-time.After(500 * time.Millisecond):
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
