package main

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

type replayCmd struct {
	database
	IDs []int64 `arg:"" name:"id" help:"Jobs that are FAILED."`
}

func (c *replayCmd) Run(e *environment) error {
	return c.each(e, c.IDs, "SELECT outcome, waiting_job_id FROM %s.replay($1)", func(id int64, outcome string, other *int64) (string, bool) {
		switch outcome {
		case "requeued":
			return fmt.Sprintf("job %d waits again", id), true
		case "merged":
			if other != nil {
				return fmt.Sprintf("job %d: its ids joined job %d, which was waiting", id, *other), true
			}
			return fmt.Sprintf("job %d: its ids wait for the catalog's next job", id), true
		case "not_failed":
			return fmt.Sprintf("job %d is not FAILED", id), false
		case "not_found":
			return fmt.Sprintf("job %d does not exist", id), false
		}
		return fmt.Sprintf("job %d is %s: try again", id, outcome), false
	})
}

type cancelCmd struct {
	database
	IDs []int64 `arg:"" name:"id" help:"Jobs that wait or run."`
}

func (c *cancelCmd) Run(e *environment) error {
	return c.each(e, c.IDs, "SELECT outcome, NULL::bigint FROM %s.cancel($1)", func(id int64, outcome string, _ *int64) (string, bool) {
		switch outcome {
		case "cancelled":
			return fmt.Sprintf("job %d is cancelled; notifyworker replay %d brings it back", id, id), true
		case "finished":
			return fmt.Sprintf("job %d had ended already", id), false
		case "not_found":
			return fmt.Sprintf("job %d does not exist", id), false
		}
		return fmt.Sprintf("job %d is %s: try again", id, outcome), false
	})
}

// each asks for every id and tells what became of it; the process fails when one of them did not go well.
func (d *database) each(e *environment, ids []int64, sql string, tell func(int64, string, *int64) (string, bool)) error {
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	conn, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // each statement was its own transaction
	allWell := true
	for _, id := range ids {
		var outcome string
		var other *int64
		if err := conn.QueryRow(ctx, d.sql(sql), id).Scan(&outcome, &other); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("job %d: %w", id, err)
		}
		text, well := tell(id, outcome, other)
		fmt.Fprintln(e.stdout, text)
		allWell = allWell && well
	}
	if !allWell {
		return exitError{code: exitFailure}
	}
	return nil
}
