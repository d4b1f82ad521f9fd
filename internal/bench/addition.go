package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const additionAbout = `One id that joins a waiting job of so many ids: the time of an enqueue call, commit included, on one connection, sizes in turns. ` +
	`Fold: the reservation of a job of 40,000 ids, which gathers what has joined; the answer with all ids included. It comes on a session that has folded before. ` +
	`"Bare" is one statement that deletes 40,000 rows of one id each and answers with one array of them: it passes over no row that somebody has locked, looks for no id that is there twice, and has no job.`

var additionSizes = []int{100, 4_000, 40_000}

func additionSteps(r *run) int { return 3 * r.cfg.Rounds }

func measureAddition(ctx context.Context, r *run, s *Section) error {
	s.About = additionAbout
	cs := []*contender{{name: "advisory", kind: advisory}, {name: "cte", kind: cte}}
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	res := map[*contender][]*rounds{}
	for _, c := range cs {
		for range additionSizes {
			res[c] = append(res[c], &rounds{})
		}
	}
	var single, chunks, bare []float64
	for n := range r.cfg.Rounds {
		for _, c := range cs {
			r.step("additions, round %d: %s", n+1, c.name)
			if err := r.additionTurn(ctx, c, res[c]); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		r.step("fold of %d ids, round %d", foldIDs, n+1)
		for per, into := range map[int]*[]float64{1: &single, 10_000: &chunks} {
			ms, err := r.foldTurn(ctx, cs[0], per)
			if err != nil {
				return fmt.Errorf("fold: %w", err)
			}
			*into = append(*into, ms)
		}
		ms, err := r.bareFoldTurn(ctx, cs[0].schema)
		if err != nil {
			return fmt.Errorf("bare fold: %w", err)
		}
		bare = append(bare, ms)
	}
	t := Table{Title: "one id joins a job of", Columns: []Column{{"p50", "ms"}, {"p99", "ms"}, {"max", "ms"}, {"p50 by that at 100", ""}, {"calls", ""}}}
	chart := Chart{Title: "One id joins a waiting job (p50)", Unit: "ms", Log: true, Lines: true}
	for _, size := range additionSizes {
		chart.Labels = append(chart.Labels, Number(size).String()+" ids")
	}
	for _, c := range cs {
		series := Series{Name: c.name}
		for i, size := range additionSizes {
			total := res[c][i].total()
			t.Rows = append(t.Rows, row(fmt.Sprintf("%v ids, %s", Number(size), c.name), total.p50, total.p99, total.max, ratio(res[c][i], res[c][0], p50), float64(total.n)))
			series.Values = append(series.Values, Number(total.p50))
		}
		chart.Series = append(chart.Series, series)
	}
	s.Tables = append(s.Tables, t, Table{Title: "fold 40,000 ids of", Columns: []Column{{"median", "ms"}}, Rows: []Row{row("40,000 additions", median(single)), row("4 additions", median(chunks)), row("40,000 rows, bare", median(bare))}})
	s.Charts = append(s.Charts, chart)
	s.atMost("addition to a job of 40,000 ids, by that at 100", ratio(res[cs[0]][len(additionSizes)-1], res[cs[0]][0], p50), 1.2, "×")
	s.atMost("fold of 40,000 ids", median(single), 100, "ms")
	return nil
}

// additionTurn makes a waiting job of each size and lets ids join them in turns.
func (r *run) additionTurn(ctx context.Context, c *contender, into []*rounds) error {
	if err := r.clear(ctx, c.schema); err != nil {
		return err
	}
	return r.place.withConn(ctx, func(conn *pgx.Conn) error {
		schema := pgx.Identifier{c.schema}.Sanitize()
		for _, size := range additionSizes {
			_, err := conn.Exec(ctx, "SELECT "+schema+`.enqueue_price_refresh($1, (SELECT jsonb_agg('p' || n) FROM generate_series(1, $2::int) n), delay => '1 hour')`,
				catalogOf(size), size)
			if err != nil {
				return err
			}
		}
		sql := "SELECT job_id FROM " + schema + ".enqueue_price_refresh($1, jsonb_build_array($2::text))"
		took := make([][]time.Duration, len(additionSizes))
		for began, n := time.Now(), 0; time.Since(began) < r.cfg.Slice || n < 7; n++ {
			for i, size := range additionSizes {
				at := time.Now()
				if _, err := conn.Exec(ctx, sql, catalogOf(size), "new"+strconv.Itoa(n)); err != nil {
					return err
				}
				if n >= 5 { // the first ones prepare the statement, and the functions' plans
					took[i] = append(took[i], time.Since(at))
				}
			}
		}
		for i := range took {
			into[i].add(spreadOf(took[i]))
		}
		return nil
	})
}

func catalogOf(size int) string { return "c" + strconv.Itoa(size) }
