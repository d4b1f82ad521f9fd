package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"notifyworker/internal/worker"
)

// contender is one of those that are compared: a schema, workers on it, and how jobs get there.
type contender struct {
	name      string
	kind      kind
	tag       string        // tells its schema from that of another of its kind
	poll      time.Duration // instead of waking by notification
	processes int           // workers that are processes of their own; 0 means one worker in this process
	slots     int           // of each worker; 0 means the default
	hold      bool          // its slots are full of jobs that don't end
	eager     bool          // measured from its start on, not from when it sleeps
	tell      bool          // its processes tell when a job starts; for those in this process that goes without saying
	refresh   bool          // its jobs are price refreshes, each of a catalog of its own

	schema   string
	starts   *starts
	troubles *troubles
	number   atomic.Int64 // of the last catalog
	ready    chan struct{}

	looks   func() worker.Histogram // of the worker that is in this process: how long looks took that found a job
	counted int                     // errors that are in some round
	mu      sync.Mutex
	procs   []process // that run now
}

// process is a worker that is one of its own.
type process struct {
	pid     int
	journal *journal
}

// running are the contender's processes.
func (c *contender) running() []process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.procs)
}

// looked is how long the looks took that found a job, of the worker in this process since it was started.
func (c *contender) looked() histogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	return histogramFrom(c.looks())
}

// prepare makes the contenders' schemas. They share one where kind and tag are the same.
func (r *run) prepare(ctx context.Context, cs []*contender) (err error) {
	for _, c := range cs {
		if c.schema, err = r.schema(ctx, c.kind, c.tag); err != nil {
			return err
		}
		c.starts, c.troubles = newStarts(), &troubles{}
	}
	return nil
}

// with clears the contenders' schemas, starts their workers, waits until these are ready, calls f, and stops them.
func (r *run) with(ctx context.Context, cs []*contender, f func(context.Context) error) error {
	for _, c := range cs {
		if err := r.clear(ctx, c.schema); err != nil {
			return fmt.Errorf("clear schema %s: %w", c.schema, err)
		}
	}
	return r.withWorkers(ctx, cs, f)
}

func (r *run) withWorkers(ctx context.Context, cs []*contender, f func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(ctx)
	for _, c := range cs {
		c.ready = make(chan struct{})
		c.troubles.listen()
		work := r.workHere
		switch {
		case c.kind == floor:
			work = r.workFloor
		case c.processes > 0:
			work = r.workThere
		}
		for range max(c.processes, 1) {
			g.Go(func() error {
				if err := work(running, c); err != nil {
					return fmt.Errorf("worker of %s: %w", c.name, err)
				}
				return nil
			})
		}
	}
	g.Go(func() error {
		defer stop()
		defer func() {
			for _, c := range cs {
				c.troubles.mute() // a worker that is stopped in the midst of its work has reason to complain
			}
		}()
		for _, c := range cs {
			if err := r.awaitReady(running, c); err != nil {
				return fmt.Errorf("wait for the workers of %s: %w", c.name, err)
			}
		}
		return f(running)
	})
	return g.Wait()
}

const readyWithin = 60 * time.Second

// awaitReady returns once all workers of a contender sleep, or poll.
func (r *run) awaitReady(ctx context.Context, c *contender) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, errors.New("they are not ready after a minute"))
	defer cancel()
	if c.kind == floor {
		select {
		case <-c.ready:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if c.eager {
		return nil
	}
	return r.place.withConn(ctx, func(conn *pgx.Conn) error {
		sql := fmt.Sprintf("SELECT /* bench client */ count(*), count(*) FILTER (WHERE wants_notify) FROM %s", pgx.Identifier{c.schema, "workers"}.Sanitize())
		for {
			var n, asleep int
			if err := conn.QueryRow(ctx, sql).Scan(&n, &asleep); err != nil {
				return err
			}
			if n >= max(c.processes, 1) && (asleep > 0 || c.poll > 0 || c.hold) {
				// What is left between the wish and the sleep: a barrier and a look.
				return pause(ctx, 20*time.Millisecond)
			}
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return context.Cause(ctx)
			}
		}
	})
}

// enqueue commits a job and takes note of when that was acknowledged.
func (c *contender) enqueue(ctx context.Context, conn *pgx.Conn) (id int64, err error) {
	sql, args := c.call()
	err = conn.QueryRow(ctx, sql, args...).Scan(&id)
	if err == nil {
		c.starts.ack(id, time.Now())
	} else if ctx.Err() == nil {
		c.starts.failed(err)
	}
	return id, err
}

// call is the statement by which a client enqueues the next job.
func (c *contender) call() (sql string, args []any) {
	schema := pgx.Identifier{c.schema}.Sanitize()
	switch {
	case c.kind == floor:
		return "INSERT /* bench client */ INTO " + schema + ".jobs DEFAULT VALUES RETURNING id", nil
	case c.refresh:
		return "SELECT /* bench client */ job_id FROM " + schema + ".enqueue_price_refresh($1, '[\"p1\"]')", []any{"c" + strconv.FormatInt(c.number.Add(1), 10)}
	default:
		return "SELECT /* bench client */ job_id FROM " + schema + ".enqueue_job('" + jobType + "')", nil
	}
}

// rehearse has a session make its plans, as those of an API's pool have: it enqueues, as far as to what happens at a commit, and rolls back.
func (c *contender) rehearse(ctx context.Context, conn *pgx.Conn) error {
	return c.rehearseCall(ctx, conn, c.call)
}

// rehearseCall is rehearse for another statement.
func (c *contender) rehearseCall(ctx context.Context, conn *pgx.Conn, call func() (sql string, args []any)) error {
	for range 6 { // PL/pgSQL plans anew up to five times
		sql, args := call()
		if err := rolledBack(ctx, conn, sql, args...); err != nil {
			return fmt.Errorf("enqueue for %s: %w", c.name, err)
		}
	}
	return nil
}

// rolledBack executes a statement and what is deferred to the commit, and rolls back.
func rolledBack(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // a connection that can't do that is not used again
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return err
	}
	return tx.Rollback(ctx)
}

// warm lets each contender work a few jobs that don't count: connections are made, statements prepared.
func (r *run) warm(ctx context.Context, cs []*contender) error {
	return r.place.withConn(ctx, func(conn *pgx.Conn) error {
		for _, c := range cs {
			for range 5 {
				if _, err := c.enqueue(ctx, conn); err != nil {
					return fmt.Errorf("enqueue for %s: %w", c.name, err)
				}
			}
		}
		for _, c := range cs {
			if err := c.starts.settle(ctx, 5*time.Second); err != nil {
				return err
			}
			if _, left := c.starts.reset(); left > 0 {
				return fmt.Errorf("%s: %d jobs of the warm-up had not started after 5 s; its workers log: %s", c.name, left, c.troubles)
			}
		}
		return pause(ctx, 50*time.Millisecond) // asleep again
	})
}

// collect ends a turn: waits a little for what has not started, and adds what was measured to the contender's rounds.
func (c *contender) collect(ctx context.Context, into *rounds, patience time.Duration) error {
	if err := c.starts.settle(ctx, patience); err != nil {
		return err
	}
	took, left := c.starts.reset()
	into.add(spreadOf(took))
	into.late += left
	n, _ := c.errors()
	into.errors += n - c.counted
	c.counted = n
	return nil
}

// errors is how much went wrong for clients and workers, and the first of it.
func (c *contender) errors() (n int, first string) {
	c.starts.mu.Lock()
	defer c.starts.mu.Unlock()
	n, first = c.troubles.count()
	if c.starts.first != nil {
		first = c.starts.first.Error()
	}
	return n + c.starts.errors, first
}

// pause returns early, with an error, when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
