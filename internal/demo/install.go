package demo

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/examples/pricing"
	"notifyworker/internal/load"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

//go:embed demo.sql
var demoSQL string

// install makes the two queues, the sample application and the demo's bookkeeping.
func install(ctx context.Context, conn *pgx.Conn, all []set) error {
	for _, s := range all {
		if _, err := migrations.Up(ctx, conn, migrations.Options{Schema: s.schema, Triggers: triggers.Files}); err != nil {
			return fmt.Errorf("migrate schema %s: %w", s.schema, err)
		}
	}
	if err := pricing.Install(ctx, conn); err != nil {
		return err
	}
	sql := strings.NewReplacer(`:"notify"`, pgx.Identifier{all[0].schema}.Sanitize(), `:"polling"`, pgx.Identifier{all[1].schema}.Sanitize()).Replace(demoSQL)
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("install the demo's bookkeeping: %w", err)
	}
	return nil
}

// loadSample publishes the sample file into each queue, and returns when all of it is recomputed.
func loadSample(ctx context.Context, cfg *pgx.ConnConfig, all []set) (c *load.Counts, err error) {
	for _, s := range all {
		l, err := load.New(load.Config{Source: bytes.NewReader(s.sample()), Connection: cfg, Schema: s.schema, Retryable: queue.Retryable})
		if err != nil {
			return nil, err
		}
		if err := l.Run(ctx); err != nil {
			return nil, fmt.Errorf("load the sample: %w", err)
		}
		c = l.Counts()
	}
	return c, settle(ctx, cfg, all)
}

// settle waits until nothing is left to recompute in either queue.
func settle(ctx context.Context, cfg *pgx.ConnConfig, all []set) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settledWithin, errNotSettled)
	defer cancel()
	for _, s := range all {
		_, err := load.Settle(ctx, load.Waiting{
			Schema: s.schema, Retryable: queue.Retryable,
			Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, cfg.Copy()) },
		})
		if err != nil {
			return fmt.Errorf("wait for schema %s: %w%s", s.schema, err, leftOver(context.WithoutCancel(ctx), cfg, s))
		}
	}
	return nil
}

// leftOver tells what is left in a queue, for whoever has to find out why.
func leftOver(ctx context.Context, cfg *pgx.ConnConfig, s set) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg.Copy())
	if err != nil {
		return ""
	}
	defer conn.Close(ctx) //nolint:errcheck // only read from
	var text string
	sql := `SELECT coalesce(string_agg(E'\n  ' || what, ''), '') FROM (
		(SELECT format('job %s of %s is %s, attempt %s, %s ids, due in %s, lease ends in %s, %s', id, catalog_id, status, attempts, product_count,
		        run_after - clock_timestamp(), lease_expires_at - clock_timestamp(), error) AS what FROM SCHEMA.jobs WHERE status IN ('PENDING', 'RUNNING') LIMIT 20)
		UNION ALL
		(SELECT format('addition %s of %s, marked %s, due in %s', id, catalog_id, marked, CASE WHEN isfinite(run_after) THEN run_after - clock_timestamp() END) FROM SCHEMA.job_additions LIMIT 20)
		UNION ALL
		(SELECT format('refresh %s of %s, %s done, lease ends in %s, %s', id, catalog_id, done_count, lease_expires_at - clock_timestamp(), error) FROM SCHEMA.refreshes WHERE status = 'ACTIVE' LIMIT 20)
		UNION ALL
		(SELECT format('worker %s wants notify %s, busy %s, last beat %s ago', pid, wants_notify, busy, clock_timestamp() - last_beat) FROM SCHEMA.workers)) x`
	if err := conn.QueryRow(ctx, strings.ReplaceAll(sql, "SCHEMA", pgx.Identifier{s.schema}.Sanitize())).Scan(&text); err != nil {
		return "; what is left can't be read: " + err.Error()
	}
	return "; left are" + text
}

// Far more than both take on a machine that keeps up.
const (
	settledWithin = time.Minute
	startedWithin = time.Minute
)

var errNotSettled = fmt.Errorf("the recomputation had not ended after %v", settledWithin)

// awaitWorkers returns once all workers of each set have registered.
func awaitWorkers(ctx context.Context, conn *pgx.Conn, all []set) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startedWithin, fmt.Errorf("the workers had not started after %v", startedWithin))
	defer cancel()
	for _, s := range all {
		for {
			var n int
			err := conn.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{s.schema, "workers"}.Sanitize()).Scan(&n)
			if err == nil && n >= s.workers {
				break
			}
			if err == nil {
				select {
				case <-time.After(20 * time.Millisecond):
					continue
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("wait for the workers of schema %s: %w", s.schema, err)
		}
	}
	return nil
}
