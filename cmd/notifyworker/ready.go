package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"notifyworker/internal/observe"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

// ready waits for a database, and makes sure that its schema is this binary's.
func (s workerSettings) ready(ctx context.Context, on shard, migrate bool, watch *observe.Database, log zerolog.Logger) (err error) {
	wait, giveUp := 200*time.Millisecond, time.Now().Add(s.startTimeout)
	for {
		if err = s.inspect(ctx, on, migrate, log); err == nil || !queue.Retryable(err) || ctx.Err() != nil || time.Now().After(giveUp) {
			return err
		}
		watch.Waiting(err)
		log.Warn().Err(err).Dur("again_in", wait).Msg("the database is not ready")
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, 5*time.Second)
	}
}

func (s workerSettings) inspect(ctx context.Context, on shard, migrate bool, log zerolog.Logger) (err error) {
	conn, err := pgx.ConnectConfig(ctx, forOnce(on.conn))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", where(on.conn), err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all is committed
	if migrate {
		applied, err := migrations.Up(ctx, conn, migrations.Options{
			Schema: s.schema, Triggers: triggers.Files, Variant: s.variant,
			Log: func(text string) { log.Info().Msg(text) },
		})
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		if len(applied) > 0 {
			log.Info().Strs("applied", applied).Msg("migrated")
		}
	}
	if err := migrations.Check(ctx, conn, s.schema, triggers.Files); err != nil {
		return err
	}
	installed, err := migrations.Variant(ctx, conn, s.schema)
	if err != nil {
		return err
	}
	if s.variant != "" && s.variant != installed {
		return fmt.Errorf("schema %s has the variant %s, this worker is configured for %s: change variant, or run \"notifyworker migrate --variant=%s\"",
			s.schema, installed, s.variant, s.variant)
	}
	return nil
}
