package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"notifyworker/examples/pricing"
	"notifyworker/internal/load"
	"notifyworker/internal/queue"
)

type loadCmd struct {
	database
	File        string `arg:"" help:"CSV or CSV.gz with the columns published_at,update_id,catalog_id,product_id,unit_price; - is standard input."`
	Speed       string `placeholder:"N" help:"Replay with the file's own timing, N times as fast (default: as fast as possible)."`
	Connections string `placeholder:"N" help:"Updates published at once (default 8)."`
	Rejects     string `placeholder:"FILE" help:"Write all lines that can't be published there, as CSV."`
	Wait        bool   `help:"Wait until all is recomputed, then check every price by SQL."`
}

func (c *loadCmd) Run(e *environment) error {
	r := &reader{}
	connections := r.integer("connections", c.Connections, 8, 1, 64)
	var speed float64
	if c.Speed != "" {
		var err error
		if speed, err = strconv.ParseFloat(c.Speed, 64); err != nil || !(speed > 0 && speed <= 1e12) {
			r.fail("speed", "is %q: give a number above 0, such as 1000", c.Speed)
		}
	}
	config, err := c.parse()
	if err := errors.Join(r.err(), err); err != nil {
		return usageError{err}
	}
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	if err := c.install(ctx); err != nil {
		return err
	}
	file, size, err := c.source(e.stdin)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read from
	rejects, closeRejects, err := c.rejects(file)
	if err != nil {
		return err
	}
	queue.Harden(config, "notifyworker load")
	queue.FitPooler(ctx, config)
	loader, err := load.New(load.Config{
		Source: file, Connection: config, Schema: c.schema(), Connections: connections, Speed: speed,
		Rejected: rejects.Write, Retryable: queue.Retryable,
	})
	if err != nil {
		return usageError{err}
	}
	lines, hide := e.showProgress(loader.Counts(), size)
	rejects.Print = lines
	loadErr := loader.Run(ctx)
	hide()
	loader.Counts().Summary(e.stdout)
	if err := errors.Join(loadErr, closeRejects()); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return exitError{exitFailure, fmt.Sprintf("stopped: the file was read up to line %d, and only what is counted above is published", loader.Counts().Line.Load())}
		}
		return fmt.Errorf("load %s: %w", c.File, err)
	}
	if n := loader.Counts().Rejected.Load(); n > 0 && loader.Counts().Updates.Load() == 0 {
		return exitError{exitFailure, fmt.Sprintf("nothing was published: all %d lines of %s were rejected", n, c.File)}
	}
	if !c.Wait {
		return nil
	}
	return c.settle(ctx, e)
}

// install makes sure that both the queue and the sample application are there.
func (c *loadCmd) install(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all is committed
	return pricing.Install(ctx, conn)
}

func (e *environment) showProgress(c *load.Counts, size int64) (lines io.Writer, hide func()) {
	if isTerminal(os.Stderr) {
		return load.ShowProgress(os.Stderr, c, size, true) // the bar wants the terminal itself
	}
	return load.ShowProgress(e.stderr, c, size, false)
}

// settle waits for the workers and asks for the verdict.
func (c *loadCmd) settle(ctx context.Context, e *environment) error {
	var told time.Time
	b, err := load.Settle(ctx, load.Waiting{Connect: c.connect, Schema: c.schema(), Retryable: queue.Retryable, Report: func(b load.Backlog) {
		if time.Since(told) < 3*time.Second || b.Open() == 0 {
			return
		}
		told = time.Now()
		fmt.Fprintf(e.stderr, "waiting: %d jobs pending, %d running, %d additions, %d refreshes\n", b.Pending, b.Running, b.Additions, b.Refreshes)
		if b.Workers == 0 {
			fmt.Fprintln(e.stderr, "no worker is alive: start one with notifyworker run")
		}
	}})
	if err != nil {
		return fmt.Errorf("wait for the recomputation: %w", err)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // only read from
	v, err := load.Judge(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "verdict            %s (%d tariffs, %d prices, %d mismatches)\n", v.Text, v.Tariffs, v.Prices, v.Mismatches)
	if b.Failed > 0 {
		fmt.Fprintf(e.stdout, "failed             %d price refreshes are FAILED: see error in %s.jobs, and notifyworker replay\n", b.Failed, c.schema())
	}
	if v.Mismatches > 0 {
		return exitError{exitFailure, "prices are wrong"}
	}
	if b.Failed > 0 {
		return exitError{exitFailure, "price refreshes have failed"}
	}
	return nil
}

// source opens the file and tells its length, 0 when that is not known.
func (c *loadCmd) source(stdin io.Reader) (io.ReadCloser, int64, error) {
	if c.File == "-" {
		return io.NopCloser(stdin), 0, nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, 0, fmt.Errorf("open the tariffs: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close() //nolint:errcheck // only read from
		return nil, 0, fmt.Errorf("open the tariffs: %w", err)
	}
	if info.IsDir() {
		f.Close() //nolint:errcheck // only read from
		return nil, 0, fmt.Errorf("%s is a folder: name a file", c.File)
	}
	return f, info.Size(), nil
}

func (c *loadCmd) rejects(source io.ReadCloser) (*load.RejectWriter, func() error, error) {
	w := &load.RejectWriter{}
	if c.Rejects == "" {
		return w, w.Close, nil
	}
	if f, ok := source.(*os.File); ok {
		from, err := f.Stat()
		if to, there := os.Stat(c.Rejects); err == nil && there == nil && os.SameFile(from, to) {
			return nil, nil, usageError{errors.New("load: --rejects names the file that is to be loaded, which it would overwrite")}
		}
	}
	f, err := os.Create(c.Rejects)
	if err != nil {
		return nil, nil, fmt.Errorf("write the rejected lines: %w", err)
	}
	w.All = f
	return w, func() error { return errors.Join(w.Close(), f.Close()) }, nil
}

// isTerminal says whether somebody looks at f.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && f.Name() != os.DevNull
}
