package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report as tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "\nnotifyworker %s on PostgreSQL %s, %s; %d CPUs, %s/%s; medians of %d rounds, %v each; %v in all\n", r.Version, r.Server.Version,
		r.Server.durability(), r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Rounds,
		time.Duration(r.SliceSeconds*float64(time.Second)), time.Duration(r.TookSeconds*float64(time.Second)).Round(time.Second))
	for _, s := range r.Sections {
		fmt.Fprintf(w, "\n%s (%s)\n%s\n", strings.ToUpper(s.Title), s.Name, fold(s.About, 110))
		for _, t := range s.Tables {
			if err := t.writeText(w); err != nil {
				return err
			}
		}
		for _, n := range s.Notes {
			fmt.Fprintln(w, fold("! "+n, 110))
		}
	}
	return r.writeTargets(w)
}

func (s Server) durability() string {
	if s.Settings[filesIn] == "memory" {
		return "NOT durable (its files are in memory; set TMPDIR to a folder on a disk)"
	}
	if s.Settings["fsync"] == "on" && s.Settings["synchronous_commit"] != "off" {
		return "durable"
	}
	return fmt.Sprintf("NOT durable (fsync %s, synchronous_commit %s)", s.Settings["fsync"], s.Settings["synchronous_commit"])
}

func (t Table) writeText(w io.Writer) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, r := range t.Rows {
		width = max(width, len([]rune(r.Name)))
	}
	width = max(width, len([]rune(t.Title)))
	cells := []string{pad(t.Title, width)}
	for _, c := range t.Columns {
		if c.Unit != "" {
			c.Name += " " + c.Unit
		}
		cells = append(cells, c.Name)
	}
	fmt.Fprintln(tw, strings.Join(cells, "\t")+"\t")
	for _, r := range t.Rows {
		cells := []string{pad(r.Name, width)}
		for _, v := range r.Values {
			cells = append(cells, v.String())
		}
		line := strings.Join(cells, "\t") + "\t"
		if r.Errors > 0 {
			line += fmt.Sprintf(" %d errors", r.Errors)
		}
		if r.Note != "" {
			line += " " + r.Note
		}
		fmt.Fprintln(tw, line)
	}
	return tw.Flush()
}

func (r *Report) writeTargets(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := false
	for _, s := range r.Sections {
		for _, t := range s.Targets {
			if !head {
				fmt.Fprintf(w, "\nTARGETS\n\n")
				head = true
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", t.What, t.Wanted(), t.Value.with(t.Unit), t.Verdict())
		}
	}
	return tw.Flush()
}

// Wanted is the target in words.
func (t Target) Wanted() string {
	sign := "≥"
	if t.AtMost {
		sign = "≤"
	}
	return sign + " " + t.Limit.with(t.Unit)
}

// Verdict says whether the target is met.
func (t Target) Verdict() string {
	switch {
	case math.IsNaN(float64(t.Value)):
		return "not measured"
	case t.Met:
		return "met"
	}
	return "NOT met"
}

// String is for people: three digits or the whole number; – where nothing was measured.
func (n Number) String() string {
	f := float64(n)
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "–"
	case a >= 10_000:
		text := strconv.FormatFloat(math.Round(f), 'f', 0, 64)
		for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case a >= 100 || f == math.Trunc(f):
		return strconv.FormatFloat(f, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	default:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
}

func (n Number) with(unit string) string {
	if unit == "" || math.IsNaN(float64(n)) {
		return n.String()
	}
	return n.String() + " " + unit
}

func pad(s string, width int) string { return s + strings.Repeat(" ", width-len([]rune(s))) }

// pollName is what one is called that looks so often.
func pollName(every time.Duration) string {
	if every == time.Second {
		return "polling every second"
	}
	return "polling every " + every.String()
}

// several is a number of things.
func several(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// fold breaks lines between words.
func fold(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
