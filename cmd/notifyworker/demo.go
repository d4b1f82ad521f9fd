package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"notifyworker/internal/demo"
)

type demoCmd struct {
	DatabaseURL string `nofile:"" placeholder:"URL" help:"Play in a new database on this server, dropped at the end, instead of bringing a server along."`
	Postgres    string `env:"NOTIFYWORKER_PG" placeholder:"WHICH" help:"Whose PostgreSQL to start: auto, npm, system, a major such as 18, or a folder of binaries (default auto)."`
	Duration    string `placeholder:"DURATION" help:"How long to publish, 1s to 40s (default 20s)."`
	Rate        string `placeholder:"N" help:"Updates a second, for each of the two queues (default 20)."`
}

func (c *demoCmd) Run(e *environment) error {
	r := &reader{}
	duration := r.duration("duration", c.Duration, 20*time.Second, time.Second, 40*time.Second)
	rate := r.integer("rate", c.Rate, 20, 1, 1000)
	if err := r.err(); err != nil {
		return usageError{err}
	}
	if urls, err := splitURLs("--database-url", []string{c.DatabaseURL}); err != nil || len(urls) > 1 {
		return usageError{errors.New("demo: several databases are named, and it plays on one: say which by --database-url")}
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which the demo starts as its workers: %w", err)
	}
	stop, end, release := twoSignals(e.ctx, func(s os.Signal) { fmt.Fprintf(e.stderr, "\n%v: cleaning up\n", s) })
	defer release()
	ctx, done := withGoRun(stop, executable)
	defer done()
	result := make(chan error, 1)
	go func() {
		result <- demo.Run(ctx, demo.Config{
			Executable: executable, DatabaseURL: c.DatabaseURL, Postgres: c.Postgres, Duration: duration,
			Rate: float64(rate), Out: e.stdout, Terminal: isTerminal(os.Stdout),
		})
	}()
	select {
	case err = <-result:
	case <-end.Done(): // at once: the guards of workers and server clean up
		var second secondSignal
		errors.As(context.Cause(end), &second)
		return exitError{second.code(), second.Error()}
	}
	if ctx.Err() != nil && err != nil {
		return exitError{exitFailure, "ended before the verdict: " + err.Error()}
	}
	return err
}
