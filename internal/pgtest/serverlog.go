package pgtest

import (
	"regexp"
	"strings"
	"testing"
)

// NoServerErrors fails the test when the server has logged an ERROR, FATAL or PANIC of this database whose message none
// of the allowed regular expressions matches. A server that ran before us keeps its log to itself: then it only says so.
func (d *Database) NoServerErrors(t testing.TB, allowed ...string) {
	t.Helper()
	if d.cluster.own == nil {
		t.Log("the server's log is not ours to read: errors in it were not looked for")
		return
	}
	log, err := d.cluster.own.Log()
	if err != nil {
		t.Fatal(err)
	}
	var ok []*regexp.Regexp
	for _, a := range allowed {
		ok = append(ok, regexp.MustCompile(a))
	}
	for _, l := range errorLines(log, d.Name) {
		if !anyMatches(ok, l) {
			t.Errorf("the server logged: %s", l)
		}
	}
}

// errorLines picks the entries of one database that are errors, each with its continuation (DETAIL, STATEMENT, …).
func errorLines(log, database string) []string {
	mark := " <" + database + "> "
	var out []string
	keep := false
	for line := range strings.Lines(log) {
		_, rest, ours := strings.Cut(line, mark)
		level, _, _ := strings.Cut(rest, ":")
		switch {
		case ours && (level == "ERROR" || level == "FATAL" || level == "PANIC"):
			out = append(out, strings.TrimRight(rest, "\n"))
			keep = true
		case ours && (level == "DETAIL" || level == "HINT" || level == "CONTEXT" || level == "STATEMENT" || level == "QUERY") && keep,
			strings.HasPrefix(line, "\t") && keep:
			if !ours {
				rest = line
			}
			out[len(out)-1] += "\n\t" + strings.TrimSpace(rest)
		default:
			keep = false
		}
	}
	return out
}

func anyMatches(res []*regexp.Regexp, s string) bool {
	first, _, _ := strings.Cut(s, "\n")
	for _, r := range res {
		if r.MatchString(first) {
			return true
		}
	}
	return false
}
