package load

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backlog is what is still to be recomputed in a queue, and what ended as a dead letter.
type Backlog struct {
	Pending, Running, Additions, Refreshes int64
	Workers                                int64 // alive
	Failed                                 int64 // price refreshes that are dead letters
}

// Open is how much there is to wait for.
func (b Backlog) Open() int64 { return b.Pending + b.Running + b.Additions + b.Refreshes }

// Verdict is what the sample application says of its prices.
type Verdict struct {
	Tariffs, Prices, Mismatches int64
	Text                        string
}

const backlogSQL = `SELECT
	(SELECT count(*) FROM %[1]s.jobs WHERE status = 'PENDING' AND type = 'PRICE_REFRESH'),
	(SELECT count(*) FROM %[1]s.jobs WHERE status = 'RUNNING' AND type = 'PRICE_REFRESH'),
	(SELECT count(*) FROM %[1]s.job_additions),
	(SELECT count(*) FROM %[1]s.refreshes WHERE status = 'ACTIVE'),
	(SELECT count(*) FROM %[1]s.workers WHERE last_beat > clock_timestamp() - interval '30 seconds'),
	(SELECT count(*) FROM %[1]s.jobs WHERE status = 'FAILED' AND type = 'PRICE_REFRESH')`

// ReadBacklog looks once. It is one statement, hence one moment: an id that a job hands to a refresh is seen in one of them.
func ReadBacklog(ctx context.Context, conn *pgx.Conn, schema string) (b Backlog, err error) {
	row := conn.QueryRow(ctx, fmt.Sprintf(backlogSQL, pgx.Identifier{schema}.Sanitize()))
	if err := row.Scan(&b.Pending, &b.Running, &b.Additions, &b.Refreshes, &b.Workers, &b.Failed); err != nil {
		return b, fmt.Errorf("read the backlog of schema %s: %w", schema, err)
	}
	return b, nil
}

// Waiting is what Settle needs; all but Report must be set.
type Waiting struct {
	Connect   func(context.Context) (*pgx.Conn, error)
	Schema    string
	Retryable func(error) bool // whether the database may be back in a moment
	Report    func(Backlog)    // told of every look; may be nil
}

// patience is how long Settle goes on asking a database that does not answer.
const patience = 2 * time.Minute

// Settle waits until nothing is left to recompute, also over a restart of the server, and returns the last look.
func Settle(ctx context.Context, w Waiting) (b Backlog, err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // only read from
		}
	}()
	answered := time.Now()
	for {
		if conn == nil || conn.IsClosed() {
			conn, err = w.Connect(ctx)
		}
		if err == nil {
			b, err = ReadBacklog(ctx, conn, w.Schema)
		}
		switch {
		case err == nil:
			answered = time.Now()
			if w.Report != nil {
				w.Report(b)
			}
			if b.Open() == 0 {
				return b, nil
			}
		case ctx.Err() != nil || !w.Retryable(err) || time.Since(answered) > patience:
			return b, err
		}
		err = nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
}

// Judge asks the sample application whether every tariff in force has the price that the rules give.
func Judge(ctx context.Context, conn *pgx.Conn) (v Verdict, err error) {
	err = conn.QueryRow(ctx, "SELECT tariffs, prices, mismatches, verdict FROM pricing.verdict()").Scan(&v.Tariffs, &v.Prices, &v.Mismatches, &v.Text)
	if err != nil {
		return v, fmt.Errorf("ask for the verdict: %w", err)
	}
	return v, nil
}
