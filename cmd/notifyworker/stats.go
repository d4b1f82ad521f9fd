package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"notifyworker/internal/queue"
)

type statsCmd struct {
	database
	Window string `placeholder:"DURATION" help:"Durations and failures of the jobs that ended within it, the last 50000 of them at most (default 1h)."`
}

func (c *statsCmd) Run(e *environment) error {
	r := &reader{}
	window := r.duration("window", c.Window, time.Hour, time.Second, 366*24*time.Hour)
	if err := r.err(); err != nil {
		return usageError{err}
	}
	shards, err := c.shards()
	if err != nil {
		return usageError{err}
	}
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	var errs []error
	for i, s := range shards {
		if len(shards) > 1 {
			fmt.Fprintf(e.stdout, "%sDATABASE %s\n", map[bool]string{true: "\n"}[i > 0], s.name)
		}
		err := c.show(ctx, e, s, window)
		if err != nil && len(shards) > 1 {
			err = fmt.Errorf("database %s: %w", s.name, err)
		}
		errs = append(errs, err) // the others are shown all the same
	}
	return errors.Join(errs...)
}

// show prints what there is to say of one database.
func (c *statsCmd) show(ctx context.Context, e *environment, s shard, window time.Duration) error {
	conn, err := c.connectTo(ctx, s.conn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // it is only read from
	store, err := queue.New(queue.Config{DB: conn, Schema: c.schema(), WorkerID: newUUID()})
	if err != nil {
		return err
	}
	depth, err := store.Depth(ctx)
	if err != nil {
		return err
	}
	durations, err := store.Durations(ctx, window)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TYPE\tPENDING\tDUE\tRUNNING\tIDS WAITING\tOLDEST DUE FOR")
	for _, d := range depth {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%v\n", printable(d.Type), d.Pending, d.Due, d.Running, d.WaitingIDs, d.OldestDue.Round(time.Millisecond))
	}
	fmt.Fprintf(t, "\nTYPE\tENDED IN %v\tFAILED\tP50\tP95\n", window)
	var ended int64
	var since time.Time
	for _, d := range durations {
		ended += d.Runs
		if since.IsZero() || d.Since.Before(since) {
			since = d.Since
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%v\t%v\n", printable(d.Type), d.Runs, d.Failures, d.P50, d.P95)
	}
	if ended >= queue.MostDurations {
		fmt.Fprintf(t, "(the last %d jobs that ended, since %s: earlier ones are not counted)\n", ended, since.Format(time.DateTime+" MST"))
	}
	fmt.Fprintln(t, "\nWORKER\tHOST\tPID\tVERSION\tSLOTS\tBUSY\tLAST BEAT AGO")
	rows, err := conn.Query(ctx, c.sql(`SELECT id::text, host, pid, version, slots, busy, extract(epoch FROM clock_timestamp() - last_beat)::float8
		FROM %s.workers ORDER BY last_beat DESC LIMIT 100`))
	if err != nil {
		return fmt.Errorf("read the workers: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, host, version string
		var pid, slots, busy int
		var ago float64
		if err := rows.Scan(&id, &host, &pid, &version, &slots, &busy, &ago); err != nil {
			return fmt.Errorf("read the workers: %w", err)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%v\n", id, printable(host), pid, printable(version), slots, busy, time.Duration(ago*float64(time.Second)).Round(100*time.Millisecond))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the workers: %w", err)
	}
	return t.Flush()
}

// printable is a name as it may be printed: whoever may enqueue makes up types, and a terminal obeys what it is sent.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
