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
	understood := func(page, text string) {
		n++
		text, _, _ = strings.Cut(text, " #")
		_, k := model(t, fileConfig{})
		if _, err := k.Parse(strings.Fields(strings.ReplaceAll(text, "'", ""))); err != nil {
			t.Errorf("%s shows notifyworker %s: %v", page, text, err)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shell := false
		for l := range strings.Lines(string(text)) {
			if strings.HasPrefix(l, "```") {
				shell = strings.TrimSpace(l) == "```sh"
			}
			if m := line.FindStringSubmatch(strings.TrimSpace(l)); shell && m != nil {
				understood(page, m[1])
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
