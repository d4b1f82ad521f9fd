package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const fleetAbout = `Worker processes that are idle but for 50 jobs a second in all. Commit to start by this machine's clock, which all processes share. Statements: what all of them sent for each job, ` +
	`their signs of life included. The largest fleets are left out where the server has not the connections for them.`

const (
	fleetRate = 50
	// A worker knows of the others by its beats.
	acquainted = 4500 * time.Millisecond
)

func fleetSizes(r *run) []int {
	if r.tiny() {
		return []int{1, 2}
	}
	if r.cfg.Short {
		return []int{1, 32}
	}
	return []int{1, 2, 4, 8, 16, 32, 64}
}

func fleetSteps(r *run) int { return r.cfg.Rounds * len(fleetSizes(r)) }

func measureFleet(ctx context.Context, r *run, s *Section) error {
	s.About = fleetAbout
	sizes := fleetSizes(r)
	var cs []*contender
	for _, n := range sizes {
		cs = append(cs, &contender{name: several(n, "process", "processes"), kind: advisory, processes: n, tell: true})
	}
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	res, calls := results(cs), make([][]float64, len(cs))
	for n := range r.cfg.Rounds {
		for i, c := range cs {
			r.step("a fleet, round %d: %s", n+1, c.name)
			if need := 5*c.processes + 20; need > r.place.spare {
				if n == 0 {
					s.Notes = append(s.Notes, fmt.Sprintf("not measured with %s, which may need %d connections: the server has %d left", c.name, need, r.place.spare))
				}
				continue
			}
			statements, err := r.fleetTurn(ctx, c, res[c])
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			calls[i] = append(calls[i], statements)
		}
	}
	t := Table{Title: "at 50 jobs/s", Columns: append(append([]Column{}, latencyColumns...), Column{"statements a job", ""})}
	chart := Chart{Title: "Commit to start, 50 jobs a second", Unit: "ms", Log: true, Lines: true, Series: []Series{{Name: "p50"}, {Name: "p99"}}}
	for i, c := range cs {
		line := latencyRow(c, res[c])
		line.Values = append(line.Values, Number(median(calls[i])))
		t.Rows = append(t.Rows, line)
		chart.Labels = append(chart.Labels, strconv.Itoa(c.processes))
		chart.Series[0].Values = append(chart.Series[0].Values, Number(res[c].medianOf(p50)))
		chart.Series[1].Values = append(chart.Series[1].Values, Number(res[c].medianOf(p99)))
	}
	s.Tables, s.Charts = append(s.Tables, t), append(s.Charts, chart)
	s.Notes = append(s.Notes, troublesOf(cs)...)
	for i, c := range cs {
		if c.processes == 32 || r.tiny() && i > 0 {
			s.atMost(fmt.Sprintf("statements a job of %d processes, by those of one", c.processes), medianRatio(calls[i], calls[0]), 3, "×")
			s.atMost(fmt.Sprintf("latency p99 of %d processes, by that of one", c.processes), ratio(res[c], res[cs[0]], p99), 2, "×")
		}
	}
	return nil
}

func (r *run) fleetTurn(ctx context.Context, c *contender, into *rounds) (statements float64, err error) {
	err = r.with(ctx, []*contender{c}, func(ctx context.Context) error {
		if c.processes > 1 {
			if err := pause(ctx, acquainted); err != nil {
				return err
			}
		}
		if err := r.warm(ctx, []*contender{c}); err != nil {
			return err
		}
		before, err := c.sentBefore(ctx)
		if err != nil {
			return err
		}
		n, _, err := r.openLoop(ctx, c, fleetRate, 2*r.cfg.Slice)
		if err != nil {
			return err
		}
		if err := c.collect(ctx, into, 2*time.Second); err != nil {
			return err
		}
		after, err := c.sent(ctx)
		statements = (after.statements - before.statements) / float64(n)
		return err
	})
	return statements, err
}
