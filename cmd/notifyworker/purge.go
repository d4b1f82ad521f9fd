package main

import (
	"errors"
	"fmt"

	"notifyworker/internal/queue"
)

type purgeCmd struct {
	database
	Completed string `placeholder:"AGE" help:"Remove jobs COMPLETED, with errors or without, that ended so long ago, such as 7d or 12h; with them the refreshes."`
	Failed    string `placeholder:"AGE" help:"Remove FAILED jobs that ended so long ago: they can't be replayed any more."`
	Batch     string `placeholder:"N" help:"Jobs in one transaction (default 500)."`
	DryRun    bool   `help:"Only count the jobs."`
}

// Run removes what is old, a batch after another. What waits or runs stays, whatever its age.
func (c *purgeCmd) Run(e *environment) error {
	r := &reader{}
	keep := queue.Retention{Completed: r.age("completed", c.Completed, 0), Failed: r.age("failed", c.Failed, 0)}
	batch := r.integer("batch", c.Batch, 500, 1, 10_000)
	if keep == (queue.Retention{}) && r.err() == nil {
		r.errs = append(r.errs, errors.New("say what is to be removed: --completed=AGE, --failed=AGE or both"))
	}
	if err := r.err(); err != nil {
		return usageError{err}
	}
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // each statement was its own transaction
	store, err := queue.New(queue.Config{DB: conn, Schema: c.schema(), WorkerID: newUUID()})
	if err != nil {
		return err
	}
	if c.DryRun {
		n, err := store.Purgeable(ctx, keep)
		if err == nil {
			fmt.Fprintf(e.stdout, "%d jobs would be removed\n", n)
		}
		return err
	}
	var sum queue.Purged
	for full := int64(batch); ; {
		p, err := store.Purge(ctx, keep, batch)
		sum.Jobs, sum.Refreshes = sum.Jobs+p.Jobs, sum.Refreshes+p.Refreshes
		if err != nil || p.Jobs < full && p.Refreshes < full {
			fmt.Fprintf(e.stdout, "removed %d jobs and %d refreshes\n", sum.Jobs, sum.Refreshes)
			return err
		}
	}
}
