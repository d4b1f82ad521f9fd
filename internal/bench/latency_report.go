package bench

import (
	"fmt"
	"time"
)

var latencyColumns = []Column{{"p50", "ms"}, {"p95", "ms"}, {"p99", "ms"}, {"max", "ms"}, {"jobs", ""}}

// reportLatency makes tables, charts and targets of what was measured.
func reportLatency(s *Section, woken, polling []*contender, idle, steady, full map[*contender]*rounds) {
	all := append(append([]*contender{}, woken...), polling...)
	t := Table{Title: "idle", Columns: append(append([]Column{}, latencyColumns...), Column{"p50 by floor's", ""}, Column{"p99 by floor's", ""})}
	for _, c := range all {
		line := latencyRow(c, idle[c])
		line.Values = append(line.Values, Number(ratio(idle[c], idle[woken[0]], p50)), Number(ratio(idle[c], idle[woken[0]], p99)))
		t.Rows = append(t.Rows, line)
	}
	s.Tables = append(s.Tables, t)
	for _, u := range []struct {
		title string
		under map[*contender]*rounds
		aim   float64
	}{{"at 200 jobs/s", steady, steadyRate}, {"at saturation", full, 0}} {
		t := Table{Title: u.title, Columns: append(append([]Column{}, latencyColumns...), Column{"jobs/s", ""})}
		for i, c := range all {
			if i == 0 && u.aim == 0 {
				continue // the floor does one job at a time
			}
			line, rate := latencyRow(c, u.under[c]), median(u.under[c].rates)
			line.Values = append(line.Values, Number(rate))
			if u.aim > 0 && rate < 0.9*u.aim {
				line.Note = joined(line.Note, fmt.Sprintf("the clients could not enqueue %.0f/s", u.aim))
			}
			t.Rows = append(t.Rows, line)
		}
		s.Tables = append(s.Tables, t)
	}
	chart := Chart{Title: "Commit to start (p50)", Unit: "ms", Log: true, Series: []Series{{Name: "idle"}, {Name: "200 jobs/s"}, {Name: "saturation"}}}
	for _, c := range all {
		chart.Labels = append(chart.Labels, c.name)
		for i, m := range []map[*contender]*rounds{idle, steady, full} {
			chart.Series[i].Values = append(chart.Series[i].Values, Number(m[c].medianOf(p50)))
		}
	}
	s.Charts = append(s.Charts, chart)
	notify, second := woken[1], polling[len(polling)-1]
	s.atMost("idle latency p50, by the floor's", ratio(idle[notify], idle[woken[0]], p50), 1.25, "×")
	s.atMost("idle latency p99, by the floor's", ratio(idle[notify], idle[woken[0]], p99), 1.5, "×")
	s.atLeast("idle latency p50, better than polling every second", ratio(idle[second], idle[notify], p50), 100, "×")
	s.atMost("latency p99 at 200 jobs/s, by the idle p99", ratio(steady[notify], idle[notify], p99), 2, "×")
	s.Notes = append(s.Notes, troublesOf(all)...)
}

func latencyRow(c *contender, res *rounds) Row {
	t := res.total()
	line := row(c.name, t.p50, t.p95, t.p99, t.max, float64(t.n))
	line.Errors = res.errors
	if res.late > 0 {
		line.Note = fmt.Sprintf("fell behind: %d jobs had not started %v after the last", res.late, c.poll+2*time.Second)
	}
	return line
}

// troublesOf tells what clients and workers ran into.
func troublesOf(cs []*contender) (notes []string) {
	for _, c := range cs {
		if n, first := c.errors(); n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d errors, the first: %s", c.name, n, first))
		}
	}
	return notes
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
