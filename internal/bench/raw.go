package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	rawBatch   = 100 // jobs by one statement
	rawClients = 2   // each on a connection of its own
)

// What a queue by hand would send to make a batch, to take one, and to conclude it. The index of due jobs, the columns and the checks are those of
// the shipped table.
const (
	rawMake = "INSERT INTO %s.jobs (type) SELECT '" + jobType + "' FROM generate_series(1, $1)"
	rawTake = `UPDATE %s.jobs SET status = 'RUNNING', lock_token = gen_random_uuid(), worker_id = $1::text::uuid, attempts = attempts + 1,
       started_at = clock_timestamp(), updated_at = clock_timestamp(), lease_expires_at = clock_timestamp() + interval '1 minute'
 WHERE id = ANY (ARRAY(SELECT id FROM %[1]s.jobs WHERE status = 'PENDING' AND run_after <= clock_timestamp()
                        ORDER BY run_after, id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id`
	rawConclude = `UPDATE %s.jobs SET status = 'COMPLETED', lock_token = NULL, worker_id = NULL, lease_expires_at = NULL, duration_ms = 0,
       finished_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE id = ANY ($1) AND status = 'RUNNING'`
)

// rawTurn has bare statements take and conclude jobs, and returns the jobs a second: the ceiling for whoever does that to this table,
// each commit being durable. The jobs wait already, as many as in drainTurn, or they are made on the way, by batches too.
func (r *run) rawTurn(ctx context.Context, schema string, jobs int, cycle bool) (rate float64, err error) {
	if err := r.clear(ctx, schema); err != nil {
		return 0, err
	}
	name := pgx.Identifier{schema}.Sanitize()
	waiting := jobs
	if cycle {
		waiting = 0
	}
	err = r.place.withConns(ctx, rawClients, func(conns []*pgx.Conn) error {
		if err := fill(ctx, conns[0], name, waiting, false); err != nil {
			return err
		}
		g, ctx := errgroup.WithContext(ctx)
		done := make([]int, len(conns))
		began := time.Now()
		for i, conn := range conns {
			g.Go(func() (err error) {
				done[i], err = rawDrain(ctx, conn, name, (jobs-waiting)/rawClients)
				return err
			})
		}
		err := g.Wait()
		took := time.Since(began)
		total := 0
		for _, n := range done {
			total += n
		}
		if err == nil && total != jobs {
			err = fmt.Errorf("%d of %d jobs were concluded", total, jobs)
		}
		rate = float64(jobs) / took.Seconds()
		return err
	})
	return rate, err
}

// rawDrain takes and concludes batches until there is none, and returns how many jobs they were. Before each it makes one, until it
// has made so many jobs.
func rawDrain(ctx context.Context, conn *pgx.Conn, schema string, toMake int) (n int, err error) {
	worker := newUUID()
	for {
		if batch := min(rawBatch, toMake); batch > 0 {
			if _, err := conn.Exec(ctx, fmt.Sprintf(rawMake, schema), batch); err != nil {
				return n, err
			}
			toMake -= batch
		}
		rows, err := conn.Query(ctx, fmt.Sprintf(rawTake, schema), worker, rawBatch)
		if err != nil {
			return n, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(ids) == 0 && toMake == 0 {
			return n, err
		}
		tag, err := conn.Exec(ctx, fmt.Sprintf(rawConclude, schema), ids)
		if err != nil {
			return n, err
		}
		n += int(tag.RowsAffected())
	}
}
