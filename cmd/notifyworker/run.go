package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"notifyworker/internal/observe"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

// lastWrites is what a drain may take longer than its timeout: for giving back what has not ended, to a database that may be
// slow or gone. With half a second for the pool to close it is less than 5 s: with the default timeout of 20 s the process is gone before
// the 30 s that Kubernetes grants are over.
const lastWrites = 4 * time.Second

type runCmd struct {
	runFlags
	ExitWithParent bool `hidden:"" help:"End at once when standard input ends: what the demo's workers do, so that none outlives it."`
}

// Run works until the first signal, drains, and tells by its exit code whether all was concluded.
func (c *runCmd) Run(e *environment) error {
	s, err := c.check(e.file)
	if err != nil {
		return usageError{err}
	}
	log := newLogger(e.stderr, s.logJSON, s.logLevel)
	stop, end, release := twoSignals(e.ctx, func(sig os.Signal) {
		log.Info().Str("signal", sig.String()).Msg("signal received: the first one drains, another one ends at once")
	})
	defer release()
	end, giveUp := context.WithCancelCause(end)
	defer giveUp(nil)
	defer context.AfterFunc(stop, func() {
		select {
		case <-time.After(s.drain + lastWrites):
			log.Error().Dur("timeout", s.drain).Dur("over", lastWrites).Msg("the drain does not end, the database does not answer: jobs are left to their leases")
			giveUp(fmt.Errorf("the drain was not over %v after its timeout of %v: jobs are left to their leases", lastWrites, s.drain))
		case <-end.Done():
		}
	})()
	if c.ExitWithParent {
		go endWithInput(e.stdin)
	}
	log.Info().Str("version", version()).Str("database", where(s.conn)).Str("schema", s.schema).Bool("polling", s.polling).
		Stringer("poll_every", s.pollEvery).Int("slots", s.slots).Str("recompute", s.engine.String()).Msg("starting")
	watch, stopServing := s.serve(log)
	defer stopServing()
	if s.variant, err = c.ready(stop, s, watch, log); err == nil {
		err = c.work(stop, end, s, watch, log)
	}
	var second secondSignal
	switch {
	case errors.As(context.Cause(end), &second):
		return exitError{second.code(), second.Error()}
	case err != nil && stop.Err() != nil && errors.Is(err, context.Canceled):
		log.Info().Msg("stopped before it had begun")
		return nil
	case err != nil:
		return err
	}
	log.Info().Msg("stopped: nothing was left behind")
	return nil
}

// ready waits for the database, and makes sure that the schema is this binary's. It returns the installed variant.
func (c *runCmd) ready(ctx context.Context, s workerSettings, watch *observe.Observer, log zerolog.Logger) (variant string, err error) {
	wait, giveUp := 200*time.Millisecond, time.Now().Add(s.startTimeout)
	for {
		if variant, err = c.inspect(ctx, s, log); err == nil || !queue.Retryable(err) || ctx.Err() != nil || time.Now().After(giveUp) {
			return variant, err
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

func (c *runCmd) inspect(ctx context.Context, s workerSettings, log zerolog.Logger) (variant string, err error) {
	conn, err := pgx.ConnectConfig(ctx, forOnce(s.conn))
	if err != nil {
		return "", fmt.Errorf("connect to %s: %w", where(s.conn), err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all is committed
	if c.Migrate {
		applied, err := migrations.Up(ctx, conn, migrations.Options{
			Schema: s.schema, Triggers: triggers.Files, Variant: s.variant,
			Log: func(text string) { log.Info().Msg(text) },
		})
		if err != nil {
			return "", fmt.Errorf("migrate: %w", err)
		}
		if len(applied) > 0 {
			log.Info().Strs("applied", applied).Msg("migrated")
		}
	}
	if err := migrations.Check(ctx, conn, s.schema, triggers.Files); err != nil {
		return "", err
	}
	installed, err := migrations.Variant(ctx, conn, s.schema)
	if err != nil {
		return "", err
	}
	if s.variant != "" && s.variant != installed {
		return "", fmt.Errorf("schema %s has the variant %s, this worker is configured for %s: change variant, or run \"notifyworker migrate --variant=%s\"",
			s.schema, installed, s.variant, s.variant)
	}
	return installed, nil
}

// endWithInput ends the process when whoever holds the other end of standard input has gone, be it by kill -9.
func endWithInput(in io.Reader) {
	io.Copy(io.Discard, in) //nolint:errcheck // an error is an end too
	os.Exit(exitFailure)
}
