package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"notifyworker/internal/bench"
)

type benchCmd struct {
	DatabaseURL string   `nofile:"" placeholder:"URL" help:"Measure this database, in new schemas that are dropped at the end, instead of bringing a server along."`
	Postgres    string   `env:"NOTIFYWORKER_PG" placeholder:"WHICH" help:"Whose PostgreSQL to start: auto, npm, system, a major such as 18, or a folder of binaries (default auto)."`
	Only        string   `placeholder:"SECTIONS" help:"What to measure, such as latency,drain. Only when named, since they take long: soak, pinned, growth, slowdisk (default all: latency, enqueue, drain, cost, catalog, addition, due, fleet)."`
	Short       bool     `help:"Within three minutes: fewer and shorter rounds."`
	Duration    string   `placeholder:"DURATION" help:"How long one contender is measured at a time (default 3s, with --short 700ms; soak 30m, pinned 10m)."`
	Rate        string   `placeholder:"N" help:"Jobs a second of soak and pinned (default soak 500, pinned 1000)."`
	History     string   `placeholder:"N" help:"Finished jobs that lie there already (default soak 1000000, pinned 0, growth 5000000)."`
	Rounds      string   `placeholder:"N" help:"How often each contender's turn comes; figures are the medians (default 5, with --short 2)."`
	From        []string `placeholder:"FILE" help:"Measure nothing, but show what was measured before and kept as JSON; may be repeated."`
	JSON        bool     `name:"json" help:"Print JSON instead of tables."`
	HTML        string   `name:"html" placeholder:"FILE" help:"Write a page with plots, too; it needs no network."`
	SVG         string   `name:"svg" placeholder:"FILE" help:"Write the plots alone, too."`
}

func (c *benchCmd) Run(e *environment) error {
	r := &reader{}
	cfg := bench.Config{
		DatabaseURL: c.DatabaseURL, Postgres: c.Postgres, Short: c.Short, Version: version(), Progress: e.stderr, Terminal: isTerminal(os.Stderr),
		Slice: r.duration("duration", c.Duration, 0, 50*time.Millisecond, bench.MaxSlice), Rounds: r.integer("rounds", c.Rounds, 0, 1, 1000),
		Rate: r.integer("rate", c.Rate, 0, 1, 100_000), History: r.integer("history", c.History, 0, 0, 1_000_000_000),
	}
	if cfg.History == 0 && c.History != "" {
		cfg.History = -1 // none, and not what the sections would take
	}
	for name := range strings.SplitSeq(c.Only, ",") {
		if name = strings.TrimSpace(name); name != "" {
			cfg.Only = append(cfg.Only, name)
		}
	}
	if c.DatabaseURL != "" {
		shards, err := parseURLs("--database-url", []string{c.DatabaseURL})
		if err == nil {
			_, err = onlyOne(shards)
		}
		r.errs = append(r.errs, err)
	}
	if err := errors.Join(r.err(), cfg.Check()); err != nil {
		return usageError{err}
	}
	var err error
	if cfg.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program, which is started as worker processes: %w", err)
	}
	for _, path := range []string{c.HTML, c.SVG} { // rather now than after half an hour
		if path != "" {
			if err := writable(path); err != nil {
				return err
			}
		}
	}
	report, err := c.kept(cfg.Only)
	if err == nil && report == nil {
		report, err = c.measure(e, cfg)
	}
	if report == nil {
		return err
	}
	if err != nil {
		fmt.Fprintln(e.stderr, "what follows was measured before the error")
	}
	return errors.Join(err, c.write(e, report))
}

// write shows a report in all ways that were asked for.
func (c *benchCmd) write(e *environment, report *bench.Report) error {
	text := report.WriteText
	if c.JSON {
		text = report.WriteJSON
	}
	errs := []error{text(e.stdout)}
	for path, write := range map[string]func(io.Writer) error{c.HTML: report.WriteHTML, c.SVG: report.WriteSVG} {
		if path != "" {
			errs = append(errs, writeTo(path, write))
		}
	}
	return errors.Join(errs...)
}

// writable says why a file can't be written, if it can't. What is in it stays.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return f.Close()
}

// kept reads earlier reports; it returns nil when none is asked for.
func (c *benchCmd) kept(only []string) (*bench.Report, error) {
	var files []io.Reader
	for _, path := range c.From {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the report: %w", err)
		}
		files = append(files, bytes.NewReader(text))
	}
	if len(files) == 0 {
		return nil, nil
	}
	report, err := bench.Read(files...)
	if err == nil {
		report.Only(only)
	}
	return report, err
}

// measure runs it until its end or a signal: the first one cleans up, the second ends at once.
func (c *benchCmd) measure(e *environment, cfg bench.Config) (*bench.Report, error) {
	stop, end, release := twoSignals(e.ctx, func(s os.Signal) { fmt.Fprintf(e.stderr, "\n%v: cleaning up\n", s) })
	defer release()
	ctx, done := withGoRun(stop, cfg.Executable)
	defer done()
	type outcome struct {
		report *bench.Report
		err    error
	}
	result := make(chan outcome, 1)
	go func() {
		report, err := bench.Run(ctx, cfg)
		result <- outcome{report, err}
	}()
	select {
	case out := <-result:
		if ctx.Err() != nil && out.err != nil {
			return out.report, exitError{exitFailure, "ended before all was measured: " + out.err.Error()}
		}
		return out.report, out.err
	case <-end.Done(): // at once: workers end with this process, the server has a guard; schemas in a named database stay
		var second secondSignal
		errors.As(context.Cause(end), &second)
		left := ""
		if cfg.DatabaseURL != "" {
			left = "; schemas whose names begin with notifyworker_bench_ are left: drop them"
		}
		return nil, exitError{second.code(), second.Error() + left}
	}
}

// writeTo makes a file of what write writes.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
