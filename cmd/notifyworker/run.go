package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// lastWrites is what a drain may take longer than its timeout: for giving back what has not ended, to a database that may be
// slow or gone: a worker takes 4 s at most. With half a second for the pool to close it is less than 5 s: with the default timeout of
// 20 s the process is gone before the 30 s that Kubernetes grants are over.
const lastWrites = 4400 * time.Millisecond

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
	log.Info().Str("version", version()).Str("database", s.where()).Str("schema", s.schema).Bool("polling", s.polling).
		Stringer("poll_every", s.pollEvery).Int("slots", s.slots).Str("recompute", s.engine.String()).Msg("starting")
	watches, stopServing := s.serve(log)
	defer stopServing()
	err = s.keepAll(stop, end, c.Migrate, watches, log)
	var second secondSignal
	switch {
	case errors.As(context.Cause(end), &second):
		return exitError{second.code(), second.Error()}
	case err != nil:
		return err
	}
	log.Info().Msg("stopped: nothing was left behind")
	return nil
}

// where names all databases, without passwords.
func (s workerSettings) where() string {
	var all []string
	for _, on := range s.shards {
		all = append(all, where(on.conn))
	}
	return strings.Join(all, "; ")
}

// endWithInput ends the process when whoever holds the other end of standard input has gone, be it by kill -9.
func endWithInput(in io.Reader) {
	io.Copy(io.Discard, in) //nolint:errcheck // an error is an end too
	os.Exit(exitFailure)
}
