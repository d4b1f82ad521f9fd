package docs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// statement is one SQL statement of a page and what the page says of its result: comment lines right after it, as psql
// prints a table, or "ERROR: SQLSTATE: text". "…" stands for anything.
type statement struct {
	sql  string
	says []string
}

// statements splits SQL at the semicolons that end a line, which is how the pages are written, and gathers the comments that
// follow each.
func statements(sql string) []statement {
	var out []statement
	var cur strings.Builder
	after, dollar := false, false
	for _, line := range strings.Split(sql, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case after && strings.HasPrefix(trimmed, "--"):
			s := &out[len(out)-1]
			s.says = append(s.says, strings.TrimSpace(strings.TrimPrefix(trimmed, "--")))
			continue
		case trimmed == "" && cur.Len() == 0:
			after = false
			continue
		}
		after = false
		cur.WriteString(line + "\n")
		code, _, _ := strings.Cut(trimmed, " --")
		if strings.Count(line, "$$")%2 == 1 {
			dollar = !dollar
		}
		if !dollar && strings.HasSuffix(strings.TrimSpace(code), ";") && !strings.HasPrefix(trimmed, "--") {
			out = append(out, statement{sql: cur.String()})
			cur.Reset()
			after = true
		}
	}
	return out
}

// runSQL runs the sql and hidden blocks of a page in order and compares what comes with what the page says. A word behind
// sql names the session of a block: each name has a connection of its own.
func runSQL(t *testing.T, db *pgtest.Database, bs []block) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sessions := map[string]*pgx.Conn{}
	n := 0
	for _, b := range bs {
		lang, session, _ := strings.Cut(b.lang, " ")
		if lang != "sql" && lang != "hidden" {
			continue
		}
		conn := sessions[session]
		if conn == nil {
			conn = db.Conn(t)
			sessions[session] = conn
		}
		for _, s := range statements(b.text) {
			n++
			got := run(ctx, conn.PgConn(), s.sql)
			switch {
			case len(s.says) > 0:
				if !sameTable(got, s.says) {
					t.Errorf("block of line %d: %s\ngot\n%s\nthe page says\n%s", b.line, s.sql, strings.Join(got, "\n"), strings.Join(s.says, "\n"))
				}
			case len(got) > 0 && strings.HasPrefix(got[0], "ERROR"):
				t.Errorf("block of line %d: %s\n%s", b.line, s.sql, got[0])
			}
		}
	}
	if n == 0 {
		t.Fatal("the page has no SQL")
	}
}

// run returns a header and rows, or one line with the error.
func run(ctx context.Context, conn *pgconn.PgConn, sql string) []string {
	results, err := conn.Exec(ctx, sql).ReadAll()
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return []string{"ERROR: " + pe.Code + ": " + pe.Message}
	} else if err != nil {
		return []string{"ERROR: " + err.Error()}
	}
	var out []string
	for _, r := range results {
		var cells []string
		for _, f := range r.FieldDescriptions {
			cells = append(cells, f.Name)
		}
		out = append(out, strings.Join(cells, " | "))
		for _, row := range r.Rows {
			cells = nil
			for _, v := range row {
				cells = append(cells, string(v))
			}
			out = append(out, strings.Join(cells, " | "))
		}
	}
	return out
}

func sameTable(got, says []string) bool {
	if len(got) != len(says) {
		return false
	}
	for i := range got {
		if strings.HasPrefix(got[i], "ERROR: ") {
			if !matches(got[i], says[i]) {
				return false
			}
			continue
		}
		g, s := strings.Split(got[i], "|"), strings.Split(says[i], "|")
		if len(g) != len(s) {
			return false
		}
		for c := range g {
			if !matches(strings.TrimSpace(g[c]), strings.TrimSpace(s[c])) {
				return false
			}
		}
	}
	return true
}

// matches compares with a pattern in which … stands for any text.
func matches(got, pattern string) bool {
	parts := strings.Split(strings.Join(strings.Fields(pattern), " "), "…")
	got = strings.Join(strings.Fields(got), " ")
	if len(parts) == 1 {
		return got == parts[0]
	}
	if !strings.HasPrefix(got, parts[0]) {
		return false
	}
	got = got[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(got, p)
		if !found {
			return false
		}
		got = rest
	}
	return strings.HasSuffix(got, parts[len(parts)-1])
}

// runPage runs a page's SQL in a fresh database of the product.
func runPage(t *testing.T, page string) {
	t.Helper()
	runSQL(t, pgtest.DB(t), blocks(read(t, page)))
}
