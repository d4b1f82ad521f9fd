package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/queue"
)

const growthAbout = `The same in turns on two schemas: one empty, one with finished jobs of the last six days. Draining: jobs that wait already, one process, 100 slots. ` +
	`Enqueueing: 16 clients, one process that drains meanwhile. Latency: one job at a time, the worker asleep, from commit to start; and at 200 jobs a second. Lateness: of jobs that become due, the worker otherwise idle. ` +
	`Addition: one id joins a job of 4,000. Fold: of 40,000 additions. Hot catalog: enqueues of 16 clients into one, in transactions of 5 ms. ` +
	`Ratios are taken round by round. Questions: the median of twenty, as notifyworker stats and its metrics ask them, before all that.`

const growthHistory = 5_000_000

// growing is one of the two sides, and what was measured of it.
type growing struct {
	drain, enqueue, idle, due *contender

	drained, enqueued, folds       []float64
	latency, steady, late, catalog *rounds
	additions                      []*rounds
}

func newGrowing(tag, side string) *growing {
	g := &growing{
		drain:   &contender{name: side + ", draining", kind: advisory, tag: tag, processes: 1, eager: true, slots: 100},
		enqueue: &contender{name: side + ", enqueueing", kind: advisory, tag: tag, processes: 1},
		idle:    &contender{name: side + ", idle", kind: advisory, tag: tag},
		due:     &contender{name: side + ", due", kind: advisory, tag: tag},
		latency: &rounds{}, steady: &rounds{}, late: &rounds{}, catalog: &rounds{},
	}
	for range additionSizes {
		g.additions = append(g.additions, &rounds{})
	}
	return g
}

func (g *growing) all() []*contender { return []*contender{g.drain, g.enqueue, g.idle, g.due} }

func growthSteps(r *run) int { return 2 + 8*r.cfg.Rounds }

func (r *run) growthHistory() int {
	switch {
	case r.cfg.History != 0:
		return max(r.cfg.History, 0)
	case r.cfg.Short:
		return growthHistory / 20
	}
	return growthHistory
}

func measureGrowth(ctx context.Context, r *run, s *Section) error {
	s.About = growthAbout
	jobs := r.growthHistory()
	sides := []*growing{newGrowing("_empty", "empty"), newGrowing("_grown", "with a history")}
	for _, g := range sides {
		if err := r.prepare(ctx, g.all()); err != nil {
			return err
		}
		g.due.starts.due = true
	}
	r.step("growth: making %v finished jobs", Number(jobs))
	if err := r.seed(ctx, sides[1].drain.schema, jobs); err != nil {
		return err
	}
	if r.place.own != nil { // or writing the history back would disturb the first rounds
		if err := r.place.withConn(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET statement_timeout = 0; CHECKPOINT")
			return err
		}); err != nil {
			return err
		}
	}
	r.step("growth: depth and statistics")
	asked := make([][]question, len(sides))
	for i, g := range sides {
		var err error
		if asked[i], err = r.ask(ctx, g.drain.schema); err != nil {
			return err
		}
	}
	for n := range r.cfg.Rounds {
		if err := r.growthRound(ctx, n, sides); err != nil {
			return err
		}
	}
	reportGrowth(s, jobs, sides, asked)
	return nil
}

func (r *run) growthRound(ctx context.Context, n int, sides []*growing) error {
	r.step("growth, round %d: draining", n+1)
	for i := range sides {
		g := sides[(n+i)%2] // who is first changes, too
		d, err := r.drainTurn(ctx, g.drain, r.amount(20_000, 5_000))
		if err != nil {
			return fmt.Errorf("%s: %w", g.drain.name, err)
		}
		g.drained = append(g.drained, d.rate)
	}
	r.step("growth, round %d: enqueueing", n+1)
	for i := range sides {
		g := sides[(n+i)%2]
		rate, _, err := r.insertTurn(ctx, g.enqueue, fullClients)
		if err != nil {
			return fmt.Errorf("%s: %w", g.enqueue.name, err)
		}
		g.enqueued = append(g.enqueued, rate)
	}
	r.step("growth, round %d: latency", n+1)
	if err := r.idleTurn(ctx, []*contender{sides[0].idle, sides[1].idle}); err != nil {
		return err
	}
	for _, g := range sides {
		if err := g.idle.collect(ctx, g.latency, 0); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		turn func(*growing) error
	}{
		{"latency at 200 jobs/s", func(g *growing) error {
			return r.turn(ctx, g.idle, g.steady, func(ctx context.Context) (int, time.Duration, error) {
				return r.openLoop(ctx, g.idle, steadyRate, r.cfg.Slice)
			})
		}},
		{"due times", func(g *growing) error { return r.dueTurn(ctx, g.due, g.late) }},
		{"a hot catalog", func(g *growing) error {
			_, err := r.catalogTurn(ctx, g.idle, catalogHolds[0], g.catalog)
			return err
		}},
		{"fold", func(g *growing) error {
			ms, err := r.foldTurn(ctx, g.idle, 1)
			g.folds = append(g.folds, ms)
			return err
		}},
		{"additions", func(g *growing) error { return r.additionTurn(ctx, g.idle, g.additions) }},
	} {
		r.step("growth, round %d: %s", n+1, part.name)
		for i := range sides {
			g := sides[(n+i)%2]
			if err := part.turn(g); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}

// question is one that people and metrics ask, and how long the answer took, in ms.
type question struct {
	name string
	ms   float64
}

// ask times the questions by the same calls as notifyworker's.
func (r *run) ask(ctx context.Context, schema string) ([]question, error) {
	pool, err := queue.OpenPool(ctx, r.place.url, "notifyworker bench", 2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	store, err := queue.New(queue.Config{DB: pool, Schema: schema, WorkerID: newUUID()})
	if err != nil {
		return nil, err
	}
	durations := func(window time.Duration) func() error {
		return func() error { _, err := store.Durations(ctx, window); return err }
	}
	var out []question
	for _, q := range []struct {
		name string
		ask  func() error
	}{
		{"depth", func() error { _, err := store.Depth(ctx); return err }},
		{"durations of the last hour", durations(time.Hour)},
		{"durations of the last day", durations(24 * time.Hour)},
		{"pressure", func() error { _, err := store.Pressure(ctx); return err }},
		{"additions", func() error { _, _, err := store.Additions(ctx); return err }},
	} {
		var took []float64
		for range 20 {
			at := time.Now()
			if err := q.ask(); err != nil {
				return nil, err
			}
			took = append(took, float64(time.Since(at))/float64(time.Millisecond))
		}
		out = append(out, question{q.name, median(took)})
	}
	return out, nil
}

func reportGrowth(s *Section, jobs int, sides []*growing, asked [][]question) {
	empty, grown := sides[0], sides[1]
	columns := []Column{{"empty", ""}, {fmt.Sprintf("%v finished jobs", Number(jobs)), ""}, {"ratio", ""}}
	const size = 1 // of additionSizes
	drained, enqueued := medianRatio(grown.drained, empty.drained), medianRatio(grown.enqueued, empty.enqueued)
	idle50, idle99 := ratio(grown.latency, empty.latency, p50), ratio(grown.latency, empty.latency, p99)
	steady50, steady99 := ratio(grown.steady, empty.steady, p50), ratio(grown.steady, empty.steady, p99)
	late50, late99 := ratio(grown.late, empty.late, p50), ratio(grown.late, empty.late, p99)
	hot, folded := medianRatio(grown.catalog.rates, empty.catalog.rates), medianRatio(grown.folds, empty.folds)
	added := ratio(grown.additions[size], empty.additions[size], p50)
	t := Table{Title: "work", Columns: columns, Rows: []Row{
		row("drained, jobs/s", median(empty.drained), median(grown.drained), drained),
		row("enqueued by 16 clients, jobs/s", median(empty.enqueued), median(grown.enqueued), enqueued),
		row("commit to start p50, ms", empty.latency.total().p50, grown.latency.total().p50, idle50),
		row("commit to start p99, ms", empty.latency.total().p99, grown.latency.total().p99, idle99),
		row("at 200 jobs/s p50, ms", empty.steady.total().p50, grown.steady.total().p50, steady50),
		row("at 200 jobs/s p99, ms", empty.steady.total().p99, grown.steady.total().p99, steady99),
		row("lateness p50, ms", empty.late.total().p50, grown.late.total().p50, late50),
		row("lateness p99, ms", empty.late.total().p99, grown.late.total().p99, late99),
		row("enqueued into a hot catalog, jobs/s", median(empty.catalog.rates), median(grown.catalog.rates), hot),
		row("fold of 40,000 additions, ms", median(empty.folds), median(grown.folds), folded),
		row("addition p50, ms", empty.additions[size].total().p50, grown.additions[size].total().p50, added),
	}}
	q := Table{Title: "questions, ms", Columns: columns}
	for i, one := range asked[1] {
		q.Rows = append(q.Rows, row(one.name, asked[0][i].ms, one.ms, one.ms/asked[0][i].ms))
	}
	s.Tables = append(s.Tables, t, q)
	s.atLeast("drain rate with a history, by that without", drained, 0.9, "×")
	s.atLeast("enqueue rate with a history, by that without", enqueued, 0.9, "×")
	s.atMost("idle latency p50 with a history, by that without", idle50, 1.1, "×")
	s.atMost("idle latency p99 with a history, by that without", idle99, 1.1, "×")
	s.atMost("latency p50 at 200 jobs/s with a history, by that without", steady50, 1.1, "×")
	s.atMost("latency p99 at 200 jobs/s with a history, by that without", steady99, 1.1, "×")
	s.atMost("lateness p99 of due jobs with a history, by that without", late99, 1.1, "×")
	s.atMost("lateness p50 of due jobs with a history, by that without", late50, 1.1, "×")
	s.atLeast("enqueue rate into a hot catalog with a history, by that without", hot, 0.9, "×")
	s.atMost("fold of 40,000 ids with a history, by that without", folded, 1.1, "×")
	s.atMost("addition p50 with a history, by that without", added, 1.1, "×")
	s.atMost("depth with a history", asked[1][0].ms, 50, "ms")
	s.atMost("durations of the last hour with a history", asked[1][1].ms, 50, "ms")
	s.atMost("durations of the last day with a history", asked[1][2].ms, 50, "ms")
	for _, g := range sides {
		s.Notes = append(s.Notes, troublesOf(g.all())...)
	}
}
