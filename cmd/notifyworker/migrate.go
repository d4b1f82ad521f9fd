package main

import (
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
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	conn, err := c.open(ctx)
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
