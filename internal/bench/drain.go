package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const drainAbout = `Jobs that wait already and do nothing, worked by one process. Jobs a second from the first start to the commit of the last conclusion, by the server's clock. ` +
	`Statements: what the worker sent for each job; processor: its own time for each thousand. ` +
	`Both have in them what the start of the process takes, since the jobs wait before it: compare them at one number of jobs. ` +
	`"Raw SQL" are two connections that take 100 jobs of the same table by one statement and write 100 conclusions by another, and do nothing else: no triggers, no handlers, no leases that are kept, no worker. ` +
	`In the whole cycle they make the jobs as well, 100 by one statement.`

const hundredSlots = "notify, 100 slots"

func drainContenders() []*contender {
	return []*contender{
		{name: "notify, 8 slots (default)", kind: advisory, processes: 1, eager: true},
		{name: "notify, 32 slots", kind: advisory, processes: 1, eager: true, slots: 32},
		{name: hundredSlots, kind: advisory, processes: 1, eager: true, slots: 100},
		{name: "notify, 1,000 slots", kind: advisory, processes: 1, eager: true, slots: 1000},
		{name: "polling every second, 100 slots", kind: advisory, processes: 1, eager: true, slots: 100, poll: time.Second},
		{name: "price refreshes, advisory, 100 slots", kind: advisory, processes: 1, eager: true, slots: 100, refresh: true},
		{name: "price refreshes, cte, 100 slots", kind: cte, processes: 1, eager: true, slots: 100, refresh: true},
	}
}

func drainSteps(r *run) int { return r.cfg.Rounds * (len(drainContenders()) + len(rawTurns)) }

// rawTurns are raw SQL's: whether it makes the jobs, too.
var rawTurns = []struct {
	name       string
	cycle      bool
	statements float64 // a job
}{
	{"raw SQL, batches of 100", false, 2. / rawBatch},
	{"raw SQL, batches of 100, the whole cycle", true, 3. / rawBatch},
}

func measureDrain(ctx context.Context, r *run, s *Section) error {
	s.About = drainAbout
	cs := drainContenders()
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	lean, err := r.schema(ctx, bare, "")
	if err != nil {
		return err
	}
	raw := make([][]float64, len(rawTurns))
	jobs := r.amount(20_000, 5_000)
	rates, calls, cpu := make([][]float64, len(cs)), make([][]float64, len(cs)), make([][]float64, len(cs))
	for n := range r.cfg.Rounds {
		for i, c := range cs {
			r.step("draining %d jobs, round %d: %s", jobs, n+1, c.name)
			d, err := r.drainTurn(ctx, c, jobs)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rates[i], calls[i], cpu[i] = append(rates[i], d.rate), append(calls[i], d.statements), append(cpu[i], d.cpu)
		}
		for i, turn := range rawTurns {
			r.step("draining %d jobs, round %d: %s", jobs, n+1, turn.name)
			rate, err := r.rawTurn(ctx, lean, jobs, turn.cycle)
			if err != nil {
				return fmt.Errorf("%s: %w", turn.name, err)
			}
			raw[i] = append(raw[i], rate)
		}
	}
	t := Table{Title: fmt.Sprintf("%d jobs", jobs), Columns: []Column{{"jobs/s", ""}, {"statements a job", ""}, {"processor a 1,000 jobs", "ms"}}}
	chart := Chart{Title: "Draining, one process", Unit: "jobs/s", Series: []Series{{Name: "jobs/s"}}}
	for i, c := range cs {
		line := row(c.name, median(rates[i]), median(calls[i]), median(cpu[i]))
		line.Errors, _ = c.errors()
		t.Rows = append(t.Rows, line)
		chart.Labels = append(chart.Labels, c.name)
		chart.Series[0].Values = append(chart.Series[0].Values, Number(median(rates[i])))
	}
	for i, turn := range rawTurns {
		t.Rows = append(t.Rows, row(turn.name, median(raw[i]), turn.statements, math.NaN()))
		chart.Labels = append(chart.Labels, turn.name)
		chart.Series[0].Values = append(chart.Series[0].Values, Number(median(raw[i])))
	}
	s.Tables, s.Charts = []Table{t}, []Chart{chart}
	hundred := slices.IndexFunc(cs, func(c *contender) bool { return c.name == hundredSlots })
	s.atLeast("drain rate of one process, 100 slots, by raw SQL's whole cycle in batches", medianRatio(rates[hundred], raw[1]), 0.6, "×")
	s.Notes = append(s.Notes, troublesOf(cs)...)
	return nil
}

type drained struct{ rate, statements, cpu float64 }

// drainTurn puts the jobs there, starts the worker and waits until it has done them all.
func (r *run) drainTurn(ctx context.Context, c *contender, jobs int) (d drained, err error) {
	if err := r.clear(ctx, c.schema); err != nil {
		return d, err
	}
	schema := pgx.Identifier{c.schema}.Sanitize()
	err = r.place.withConn(ctx, func(conn *pgx.Conn) error {
		newest, err := r.newest(ctx, conn, c.schema)
		if err != nil {
			return err
		}
		if err := fill(ctx, conn, schema, jobs, c.refresh); err != nil {
			return err
		}
		return r.withWorkers(ctx, []*contender{c}, func(ctx context.Context) error {
			seconds, err := awaitDrained(ctx, conn, schema, newest)
			if err != nil {
				return err
			}
			used, _, err := c.usage(ctx)
			if err != nil {
				return err
			}
			sent, err := c.sent(ctx)
			d = drained{float64(jobs) / seconds, sent.statements / float64(jobs), used.Seconds() * 1e6 / float64(jobs)}
			return err
		})
	})
	return d, err
}

// fill puts jobs there that wait.
func fill(ctx context.Context, conn *pgx.Conn, schema string, jobs int, refresh bool) error {
	sql := fmt.Sprintf(rawMake, schema)
	if refresh {
		sql = "INSERT INTO " + schema + `.jobs (type, config) SELECT 'PRICE_REFRESH', jsonb_build_object('catalogId', 'c' || n, 'productIds', '["p1"]'::jsonb) FROM generate_series(1, $1) n`
	}
	if _, err := conn.Exec(ctx, sql, jobs); err != nil {
		return err
	}
	// As autovacuum would have done by now, in a queue that has filled slowly.
	_, err := conn.Exec(ctx, "VACUUM (ANALYZE) "+schema+".jobs")
	return err
}

// awaitDrained returns how many seconds passed from the first start to the last conclusion of the jobs that came after one.
func awaitDrained(ctx context.Context, conn *pgx.Conn, schema string, after int64) (seconds float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, fmt.Errorf("the jobs were not done after two minutes"))
	defer cancel()
	for {
		var over bool
		var at time.Time
		err := conn.QueryRow(ctx, `SELECT /* bench client */ NOT EXISTS (SELECT FROM `+schema+`.jobs WHERE status = 'PENDING')
			AND NOT EXISTS (SELECT FROM `+schema+`.jobs WHERE status = 'RUNNING'), statement_timestamp()`).Scan(&over, &at)
		if err != nil {
			return 0, err
		}
		if over {
			err = conn.QueryRow(ctx, `SELECT /* bench client */ extract(epoch FROM $1::timestamptz - min(started_at))::float8 FROM `+schema+`.jobs WHERE id > $2`, at, after).Scan(&seconds)
			return seconds, err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, context.Cause(ctx)
		}
	}
}
