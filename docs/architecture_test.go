package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "notifyworker/"

// table returns the cells of the rows of a section whose first cell is code.
func table(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func codeWords(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestPackagesImportOnlyWhatThePageAllows(t *testing.T) {
	allowed, because := map[string][]string{}, map[string]string{}
	for _, row := range table(section(t, read(t, "architecture.md"), "## Who may import whom")) {
		name := codeWords(row[0])[0]
		allowed[name], because[name] = codeWords(row[1]), row[2]
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.TrimPrefix(path, module)
		seen[name] = true
		outside := strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "integration") || name == "docs" || strings.HasSuffix(name, "/gensample")
		rule, known := allowed[name]
		if !known && !outside {
			t.Errorf("docs/architecture.md does not say what %s may import", name)
		}
		for _, i := range strings.Fields(imports) {
			ours, isOurs := strings.CutPrefix(i, module)
			if isOurs && known && !slices.Contains(rule, ours) {
				t.Errorf("%s imports %s, which docs/architecture.md does not allow: %s", name, ours, because[name])
			}
			if name == "internal/worker" && strings.HasPrefix(i, "github.com/jackc/pgx") || name == "internal/queue" && strings.HasPrefix(i, "github.com/rs/zerolog") {
				t.Errorf("%s imports %s: %s", name, i, because[name])
			}
		}
	}
	for name := range allowed {
		if !seen[name] {
			t.Errorf("docs/architecture.md speaks of %s, which is not there", name)
		}
	}
}

// starts is what starts a goroutine: a go statement, a group's Go, a function that a timer or a context calls.
var starts = regexp.MustCompile(`(?m)(?:^|[\t ])go (?:func\b|[\w.]+\()|\.Go\(|\b(?:time|context)\.AfterFunc\(`)

func TestEveryGoroutineIsInTheTable(t *testing.T) {
	told := map[string]int{}
	for _, row := range table(section(t, read(t, "architecture.md"), "## Goroutines")) {
		told[codeWords(row[0])[0]]++
	}
	found := map[string]int{}
	for _, pattern := range []string{"../cmd/*/*.go", "../internal/*/*.go", "../migrations/*.go", "../triggers/*.go", "../examples/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := strings.TrimPrefix(f, "../")
			if strings.HasSuffix(f, "_test.go") || strings.HasPrefix(name, "internal/pgtest/") || strings.HasPrefix(name, "internal/faultproxy/") {
				continue
			}
			code := regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(read(t, f), "")
			if n := len(starts.FindAllString(code, -1)); n > 0 {
				found[name] = n
			}
		}
	}
	for f, n := range found {
		if told[f] != n {
			t.Errorf("%s starts goroutines in %d places, docs/architecture.md tells of %d", f, n, told[f])
		}
	}
	for f, n := range told {
		if found[f] == 0 {
			t.Errorf("docs/architecture.md tells of %d goroutines of %s, which starts none", n, f)
		}
	}
}
