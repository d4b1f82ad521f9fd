package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"notifyworker/integration/schedule"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The isolation levels that a client may use.
const (
	readCommitted  = "READ COMMITTED"
	repeatableRead = "REPEATABLE READ"
	serializable   = "SERIALIZABLE"
)

// client is a session of somebody who uses SQL: a transaction that may stay open for as long as it likes.
type client struct {
	w         *world
	name, iso string
	facts     []fact  // what commits with it
	gone      []fact  // deleted by hand in it
	told      []int64 // by enqueues in it
	holds     bool    // it has taken the waiting job's row
	failed    bool    // an error that the script allows has ended it
	steps     []schedule.Step
}

// newClient begins its transaction; at levels other than READ COMMITTED with a step that takes the snapshot, since others
// may act between that and the first call.
func newClient(w *world, name, iso string) *client {
	c := &client{w: w, name: name, iso: iso}
	if iso == readCommitted {
		return c
	}
	return c.do("take a snapshot", schedule.Never, nil, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT FROM notifyworker.tenants`)
		return err
	})
}

// do adds a step. An error of one of the SQLSTATEs allowed ends the transaction, which the rest of the script then skips.
func (c *client) do(name string, w schedule.Waits, allowed []string, f func(context.Context, *pgx.Conn) error) *client {
	c.steps = append(c.steps, schedule.Step{Name: name, Waits: w, Do: func(ctx context.Context, conn *pgx.Conn) error {
		if c.failed {
			return nil
		}
		if conn.PgConn().TxStatus() == 'I' {
			if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+c.iso); err != nil {
				return err
			}
			c.w.opens(1, 0)
		}
		err := f(ctx, conn)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && slices.Contains(allowed, pg.Code) {
			c.failed = true
			return nil
		}
		return err
	}})
	return c
}

// end adds the last step: commit or rollback, after which the world knows what it was promised.
func (c *client) end(commit bool, allowed ...string) schedule.Session {
	word := "COMMIT"
	if !commit {
		word = "ROLLBACK"
	}
	c.steps = append(c.steps, schedule.Step{Name: word, Do: func(ctx context.Context, conn *pgx.Conn) error {
		if c.failed {
			commit = false
		}
		_, err := conn.Exec(ctx, word)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && slices.Contains(allowed, pg.Code) {
			commit, err = false, nil
		}
		if err != nil {
			return err
		}
		c.w.opens(-1, 0)
		if c.holds {
			c.w.opens(0, -1)
		}
		for _, f := range c.facts {
			if commit {
				c.w.kept[f] = true
			} else {
				c.w.dropped[f] = true
			}
		}
		if commit {
			for _, f := range c.gone {
				c.w.excused[f] = true
			}
			for _, id := range c.told {
				c.w.told[id] = true
			}
		}
		return nil
	}})
	return schedule.Session{Name: c.name, Steps: c.steps}
}

// hold says that the step before has taken the waiting job's row, and so holds it up, as any SQL would.
func (c *client) hold() *client {
	step := &c.steps[len(c.steps)-1]
	do := step.Do
	step.Do = func(ctx context.Context, conn *pgx.Conn) error {
		if !c.holds {
			c.holds = true
			c.w.opens(0, 1)
		}
		return do(ctx, conn)
	}
	return c
}

// enqueue adds a call of enqueue_price_refresh with one id of its own.
func (c *client) enqueue(catalog, id string) *client {
	return c.do(fmt.Sprintf("enqueue %s of %s", id, catalog), schedule.ForWorkers, nil, func(ctx context.Context, conn *pgx.Conn) error {
		var job *int64
		err := conn.QueryRow(ctx, `SELECT job_id FROM notifyworker.enqueue_price_refresh($1, jsonb_build_array($2::text))`, catalog, id).Scan(&job)
		if err != nil {
			return err
		}
		if job == nil {
			return errors.New("an enqueue returned no job id")
		}
		c.told = append(c.told, *job)
		c.facts = append(c.facts, fact{catalog, fmt.Sprintf("%q", id)})
		return nil
	})
}

// enqueueMany adds a call of enqueue_price_refreshes for two catalogs, named in the wrong order.
func (c *client) enqueueMany(id string) *client {
	return c.do("enqueue "+id+" of d and c", schedule.ForWorkers, nil, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT job_id FROM notifyworker.enqueue_price_refreshes(jsonb_build_array(
			jsonb_build_object('catalogId', 'd', 'productIds', jsonb_build_array($1::text)),
			jsonb_build_object('catalogId', 'c', 'productIds', jsonb_build_array($1::text))))`, id)
		if err != nil {
			return err
		}
		told, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		if len(told) != 2 {
			return fmt.Errorf("an enqueue of two catalogs returned %d rows", len(told))
		}
		c.told = append(c.told, told...)
		c.facts = append(c.facts, fact{"c", fmt.Sprintf("%q", id)}, fact{"d", fmt.Sprintf("%q", id)})
		return nil
	})
}

// exec adds a statement of the client's own, which may fail as SQL does when it meets another: a unique violation, or a
// serialization failure at the higher levels.
func (c *client) exec(name, sql string, facts []fact, args ...any) *client {
	return c.do(name, schedule.ForAnybody, []string{"23505", "40001"}, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() > 0 {
			c.facts = append(c.facts, facts...)
		}
		return err
	})
}

func (c *client) rawInsert(id string) *client {
	return c.exec("INSERT "+id, `INSERT INTO notifyworker.jobs (type, config)
		VALUES ('PRICE_REFRESH', jsonb_build_object('catalogId', 'c', 'productIds', jsonb_build_array($1::text)))`, []fact{{"c", fmt.Sprintf("%q", id)}}, id)
}

func (c *client) rawPending() *client {
	return c.do("UPDATE to PENDING", schedule.ForAnybody, []string{"23505", "40001"}, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `UPDATE notifyworker.jobs SET status = 'PENDING', finished_at = NULL WHERE id = $1 AND status = 'FAILED'`, c.w.failed)
		return err
	})
}

// deleteWaiting adds a DELETE of catalog c's waiting job, by hand, and after the end a sweep that makes up for it.
func (c *client) deleteWaiting() *client {
	return c.do("DELETE what waits", schedule.ForAnybody, []string{"40001"}, func(ctx context.Context, conn *pgx.Conn) error {
		c.w.byHand = true
		rows, err := conn.Query(ctx, `DELETE FROM notifyworker.jobs WHERE catalog_id = 'c' AND status = 'PENDING' RETURNING config -> 'productIds'`)
		if err != nil {
			return err
		}
		lists, err := pgx.CollectRows(rows, pgx.RowTo[[]json.RawMessage])
		for _, ids := range lists {
			for _, id := range ids {
				c.gone = append(c.gone, fact{"c", string(id)})
			}
		}
		return err
	})
}

// release adds what a release of the engine does to the catalog's waiting job: it is due at once.
func (c *client) release() *client {
	return c.exec("make due", `UPDATE notifyworker.jobs SET run_after = now() WHERE catalog_id = 'c' AND status = 'PENDING'`, nil)
}

// call adds replay or cancel of a job. At the higher levels their row may have changed since the snapshot, as for any UPDATE.
func (c *client) call(function string, job *int64, w schedule.Waits) *client {
	var allowed []string
	if c.iso != readCommitted {
		allowed = []string{"40001"}
	}
	return c.do(function, w, allowed, func(ctx context.Context, conn *pgx.Conn) error {
		var outcome string
		return conn.QueryRow(ctx, `SELECT outcome FROM notifyworker.`+function+`($1)`, *job).Scan(&outcome)
	})
}
