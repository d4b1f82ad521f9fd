package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"notifyworker/internal/observe"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

// serve begins to show how this worker does, before there is anything to show, until the func that it returns is called. The
// databases that it returns are those of s.shards. Not being able to serve is no reason not to work.
func (s workerSettings) serve(log zerolog.Logger) ([]*observe.Database, func()) {
	log = log.With().Str("part", "observe").Logger()
	watch := observe.New(observe.Config{Addr: s.http, Version: version(), Log: log})
	var databases []*observe.Database
	for _, on := range s.shards {
		log := log
		if len(s.shards) > 1 {
			log = log.With().Str("database", on.name).Logger()
		}
		databases = append(databases, watch.Add(on.name, log))
	}
	if s.http == "" {
		return databases, func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := watch.Run(ctx); err != nil {
			log.Error().Err(err).Msg("going on without /livez, /readyz and /metrics")
		}
	}()
	return databases, func() {
		stop()
		<-done
	}
}

// rightSchema says whether the schema still is what this binary needs.
func rightSchema(pool *pgxpool.Pool, schema string) func(context.Context) error {
	return func(ctx context.Context) error { return migrations.Check(ctx, pool, schema, triggers.Files) }
}

// handled are the types that have a handler.
func handled[H any](handlers map[string]H) (types []string) {
	for name := range handlers {
		types = append(types, name)
	}
	return types
}
