package main

import (
	"context"
	"fmt"

	"notifyworker/examples/pricing"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

type migrateCmd struct {
	database
	Variant string `env:"NOTIFYWORKER_VARIANT" placeholder:"NAME" help:"advisory, or cte for the first generation's protocol (default: what is installed, else advisory)."`
	Sample  bool   `help:"Install the sample application too (schema pricing): what load publishes into, and what --recompute=sql:pricing.recompute needs."`
}

func (c *migrateCmd) Run(e *environment) error {
	r := &reader{}
	variant := r.oneOf("variant", c.Variant, "", "advisory", "cte")
	if err := r.err(); err != nil {
		return usageError{err}
	}
	shards, err := c.shards()
	if err != nil {
		return usageError{err}
	}
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	for i, s := range shards {
		if len(shards) > 1 {
			fmt.Fprintf(e.stdout, "database %s\n", s.name)
		}
		if err := c.migrate(ctx, e, s, variant); err != nil {
			if len(shards) == 1 {
				return err
			}
			return fmt.Errorf("database %s, number %d of %d, after which none was touched: %w", s.name, i+1, len(shards), err)
		}
	}
	return nil
}

// migrate brings one database up to date.
func (c *migrateCmd) migrate(ctx context.Context, e *environment, s shard, variant string) error {
	conn, err := open(ctx, s.conn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // all is committed
	applied, err := migrations.Up(ctx, conn, migrations.Options{
		Schema: c.schema(), Triggers: triggers.Files, Variant: variant,
		Log: func(s string) { fmt.Fprintln(e.stderr, s) },
	})
	for _, name := range applied {
		fmt.Fprintln(e.stdout, "applied", name)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if c.Sample {
		if err := pricing.Install(ctx, conn); err != nil {
			return fmt.Errorf("install the sample application: %w", err)
		}
		fmt.Fprintln(e.stdout, "schema pricing is ready")
	}
	if len(applied) == 0 {
		fmt.Fprintf(e.stdout, "schema %s is up to date\n", c.schema())
	} else {
		fmt.Fprintf(e.stdout, "schema %s is ready\n", c.schema())
	}
	return nil
}
