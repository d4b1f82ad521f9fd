package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen shows figures: a table that is drawn over again on a terminal, else a line a set and second.
type screen struct {
	w        io.Writer
	terminal bool
	all      []set
	lines    int // of the table on the terminal now
}

type row struct {
	title string
	value func(figures) string
}

func number(f func(figures) int64) func(figures) string {
	return func(x figures) string { return fmt.Sprint(f(x)) }
}

func latency(f func(figures) time.Duration) func(figures) string {
	return func(x figures) string {
		if x.started == 0 {
			return "-"
		}
		return readable(f(x))
	}
}

var table = []row{
	{"updates published", number(func(f figures) int64 { return f.published })},
	{"  joined a waiting job", number(func(f figures) int64 { return f.joined })},
	{"jobs waiting", number(func(f figures) int64 { return f.waiting })},
	{"jobs and refreshes running", number(func(f figures) int64 { return f.running })},
	{"jobs completed", number(func(f figures) int64 { return f.completed })},
	{"jobs merged", number(func(f figures) int64 { return f.merged })},
	{"requeues", number(func(f figures) int64 { return f.requeued })},
	{"prices recomputed", number(func(f figures) int64 { return f.recomputed })},
	{"commit to start, p50", latency(func(f figures) time.Duration { return f.p50 })},
	{"commit to start, p99", latency(func(f figures) time.Duration { return f.p99 })},
}

func readable(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// show draws what is true now.
func (s *screen) show(elapsed time.Duration, now []figures) {
	if !s.terminal {
		for i, f := range now {
			fmt.Fprintf(s.w, "%4.0fs  %-20s  published %d, joined %d, waiting %d, running %d, completed %d, merged %d, requeued %d, recomputed %d, commit to start p50 %s p99 %s\n",
				elapsed.Seconds(), s.all[i].name, f.published, f.joined, f.waiting, f.running, f.completed, f.merged, f.requeued, f.recomputed,
				latency(func(f figures) time.Duration { return f.p50 })(f), latency(func(f figures) time.Duration { return f.p99 })(f))
		}
		return
	}
	s.draw(now)
}

// draw puts the table where the last one stands.
func (s *screen) draw(now []figures) {
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\x1b[2K"+format+"\n", args...) }
	line("\x1b[1m%-28s%22s%22s\x1b[0m", "", s.all[0].name, s.all[1].name)
	for _, r := range table {
		line("%-28s%22s%22s", r.title, r.value(now[0]), r.value(now[1]))
	}
	s.lines = len(table) + 1
	io.WriteString(s.w, b.String()) //nolint:errcheck // a terminal that is gone shows nothing
}

// last shows the figures that stay.
func (s *screen) last(now []figures) {
	if s.terminal {
		s.draw(now)
		return
	}
	fmt.Fprintf(s.w, "%-28s%22s%22s\n", "", s.all[0].name, s.all[1].name)
	for _, r := range table {
		fmt.Fprintf(s.w, "%-28s%22s%22s\n", r.title, r.value(now[0]), r.value(now[1]))
	}
}
