package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every command line that a page shows is one that this binary understands.
func TestTheCommandLinesOfThePagesAreUnderstood(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	t.Setenv("DATABASE_URL", "postgres://h/db")
	line := regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(?:go run \./cmd/notifyworker|bin/notifyworker|notifyworker) (.*)$`)
	inline := regexp.MustCompile("`notifyworker ([a-z]+ [^`]+)`")
	n := 0
	understood := func(page, text string) *cli {
		n++
		text, _, _ = strings.Cut(text, " #")
		c, k := model(t, fileConfig{})
		if _, err := k.Parse(strings.Fields(strings.ReplaceAll(text, "'", ""))); err != nil {
			t.Errorf("%s shows notifyworker %s: %v", page, text, err)
		}
		return c
	}
	complete := func(page, text string) { // as it is pasted
		c := understood(page, text)
		if !strings.HasPrefix(text, "run ") && text != "run" || c.Config != "" {
			return
		}
		if _, err := c.Run.check(fileConfig{}); err != nil {
			t.Errorf("%s shows notifyworker %s: %v", page, text, err)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shell, sample := false, false
		for l := range strings.Lines(string(text)) {
			if strings.HasPrefix(l, "```") {
				shell, sample = strings.TrimSpace(l) == "```sh", false
			}
			sample = sample || strings.Contains(l, "migrate --sample")
			if m := line.FindStringSubmatch(strings.TrimSpace(l)); shell && m != nil {
				complete(page, m[1])
				if strings.Contains(m[1], "sql:pricing.") && !sample {
					t.Errorf("%s shows notifyworker %s, but the sample application is not installed above it: write shop for what is the reader's own", page, m[1])
				}
			}
			for _, m := range inline.FindAllStringSubmatch(l, -1) {
				understood(page, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("the pages show only %d command lines", n)
	}
}
