package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a page, or an HTML comment that starts with "test", which readers don't see.
type block struct {
	lang string // what stands behind the fence, such as sql; "hidden" for a comment
	text string
	line int // of the page, where the text starts
}

// read returns a page of this folder, or a file elsewhere in the repository by its path from here.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// blocks lists the fenced blocks and test comments of a page in order.
func blocks(page string) []block {
	var out []block
	var b *block
	end := ""
	for i, line := range strings.Split(page, "\n") {
		switch {
		case b == nil && strings.HasPrefix(line, "```"):
			b, end = &block{lang: strings.TrimPrefix(line, "```"), line: i + 2}, "```"
		case b == nil && strings.HasPrefix(line, "<!-- test"):
			b, end = &block{lang: "hidden", line: i + 2}, "-->"
		case b != nil && line == end:
			out, b = append(out, *b), nil
		case b != nil:
			b.text += line + "\n"
		}
	}
	return out
}

// section returns what stands under a heading, up to the next one of the same or a higher level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	level := heading[:strings.Index(heading, " ")]
	_, rest, found := strings.Cut("\n"+page, "\n"+heading+"\n")
	if !found {
		t.Fatalf("the page has no heading %q", heading)
	}
	if next := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+len(level))) + `} `).FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	return rest
}

// firstColumn lists the code words in the first column of the tables of a text.
func firstColumn(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
