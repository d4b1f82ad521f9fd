package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const catalogAbout = `16 clients enqueue ids of one and the same catalog, each in a transaction that stays open for a while after it, as an API's does; one worker takes the jobs all the time. ` +
	`Waited: how long the enqueue call took. In the variant cte clients wait for each other's transactions. Reservation: how long a look took that found a job, as the worker sees it.`

var catalogHolds = []time.Duration{5 * time.Millisecond, 100 * time.Millisecond}

func catalogContenders() []*contender {
	return []*contender{{name: "advisory", kind: advisory}, {name: "cte", kind: cte}}
}

func catalogSteps(r *run) int { return r.cfg.Rounds * len(catalogHolds) * len(catalogContenders()) }

func measureCatalog(ctx context.Context, r *run, s *Section) error {
	s.About = catalogAbout
	cs := catalogContenders()
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	chart := Chart{Title: "Enqueues a second into one catalog, 16 clients", Unit: "a second", Log: true}
	res := map[time.Duration]map[*contender]*rounds{}
	looks := map[time.Duration]map[*contender]histogram{}
	for _, hold := range catalogHolds {
		res[hold], looks[hold] = results(cs), map[*contender]histogram{}
	}
	for n := range r.cfg.Rounds {
		for _, hold := range catalogHolds {
			for _, c := range cs {
				r.step("a hot catalog, transactions of %v, round %d: %s", hold, n+1, c.name)
				looked, err := r.catalogTurn(ctx, c, hold, res[hold][c])
				if err != nil {
					return fmt.Errorf("%s, transactions of %v: %w", c.name, hold, err)
				}
				looks[hold][c] = looks[hold][c].plus(looked)
			}
		}
	}
	for _, c := range cs {
		chart.Series = append(chart.Series, Series{Name: c.name})
	}
	for _, hold := range catalogHolds {
		chart.Labels = append(chart.Labels, "transactions of "+hold.String())
		t := Table{Title: "transactions of " + hold.String(), Columns: []Column{{"enqueued/s", ""}, {"by cte's", ""}, {"waited p50", "ms"}, {"waited p99", "ms"}, {"max", "ms"}, {"reservation p50", "ms"}, {"reservation p99", "ms"}}}
		for i, c := range cs {
			x := res[hold][c]
			total := x.total()
			line := row(c.name, median(x.rates), medianRatio(x.rates, res[hold][cs[1]].rates), total.p50, total.p99, total.max,
				looks[hold][c].quantile(0.5), looks[hold][c].quantile(0.99))
			line.Errors = x.errors
			t.Rows = append(t.Rows, line)
			chart.Series[i].Values = append(chart.Series[i].Values, Number(median(x.rates)))
		}
		s.Tables = append(s.Tables, t)
	}
	s.Charts = append(s.Charts, chart)
	s.Notes = append(s.Notes, troublesOf(cs)...)
	short := res[catalogHolds[0]]
	s.atLeast("hot catalog, 16 connections, transactions of 5ms: advisory by cte", medianRatio(short[cs[0]].rates, short[cs[1]].rates), 10, "×")
	// One that waited for a transaction would take up to 100 ms.
	s.atMost("hot catalog, 16 connections, transactions of 100ms: reservation p99", looks[catalogHolds[1]][cs[0]].quantile(0.99), 50, "ms")
	return nil
}

func (r *run) catalogTurn(ctx context.Context, c *contender, hold time.Duration, into *rounds) (looked histogram, err error) {
	err = r.with(ctx, []*contender{c}, func(ctx context.Context) error {
		sql := "SELECT /* bench client */ job_id FROM " + pgx.Identifier{c.schema}.Sanitize() + ".enqueue_price_refresh('hot', jsonb_build_array($1::text))"
		var mu sync.Mutex
		var waits []time.Duration
		first := func(ctx context.Context, conn *pgx.Conn) error {
			return c.rehearseCall(ctx, conn, func() (string, []any) { return sql, []any{"first"} })
		}
		n, took, err := r.clients(ctx, fullClients, first, func(ctx context.Context, conn *pgx.Conn, began time.Time) (n int, err error) {
			for end := began.Add(r.cfg.Slice); time.Now().Before(end); {
				var waited time.Duration
				err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					at := time.Now()
					if _, err := tx.Exec(ctx, sql, "p"+strconv.FormatInt(c.number.Add(1), 10)); err != nil {
						return err
					}
					waited = time.Since(at)
					return pause(ctx, hold)
				})
				switch {
				case err == nil:
					n++
					mu.Lock()
					waits = append(waits, waited)
					mu.Unlock()
				case ctx.Err() != nil || conn.IsClosed():
					return n, err
				default:
					mu.Lock()
					into.errors++
					mu.Unlock()
					c.starts.failed(err)
				}
			}
			return n, nil
		})
		into.rates = append(into.rates, float64(n)/took.Seconds())
		into.add(spreadOf(waits))
		c.starts.reset() // a start serves many enqueues here
		looked = c.looked()
		return err
	})
	return looked, err
}
