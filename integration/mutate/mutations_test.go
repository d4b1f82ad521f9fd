package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table speaks of the sources as they are.
func TestEveryMutationCanBeMade(t *testing.T) {
	t.Chdir("../..")
	words := map[string]bool{}
	for _, m := range all() {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
		if words[m.what+m.file] {
			t.Errorf("%s is there twice", m.what)
		}
		words[m.what+m.file] = true
	}
}

// A test that has got another name would notice nothing from then on.
func TestEveryMutationHasTestsThatShouldNotice(t *testing.T) {
	t.Chdir("../..")
	begins := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)`)
	tests := map[string][][]string{}
	for _, m := range all() {
		in := cmp.Or(m.in, "./integration/")
		if tests[in] == nil {
			files, err := filepath.Glob(in + "*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				tests[in] = append(tests[in], begins.FindAllStringSubmatch(string(text), -1)...)
			}
		}
		// Each of the names must be one; of subtests (after the slash) nothing is known here.
		for _, name := range strings.Split(regexp.MustCompile(`/[^|(]*(\([^)]*\)[^|(]*)*`).ReplaceAllString(m.run, ""), "|") {
			way := regexp.MustCompile(name)
			if !slices.ContainsFunc(tests[in], func(test []string) bool { return way.MatchString(test[1]) }) {
				t.Errorf("%s: no test of %s is %s", m.what, in, way)
			}
		}
	}
}

// The page speaks of all mutations, and no test has missed one.
func TestThePageHasARowForEachMutation(t *testing.T) {
	text, err := os.ReadFile("../../docs/mutations.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := page(string(text), nil); string(text) != want {
		t.Error("docs/mutations.md is not what the tables of mutations make of it: run `make mutate RUN=…` for what is new or changed")
	}
	if strings.Contains(string(text), "| "+none+" |") {
		t.Error("docs/mutations.md has a mutation that no test noticed")
	}
}

func TestAPageKeepsTheRowsOfMutationsThatWereNotMade(t *testing.T) {
	first, second := all()[0], all()[1]
	old := page("", map[string]string{first.row(): "`TestA`: gone", second.row(): "`TestB`: gone"})
	got := page(old, map[string]string{second.row(): none})
	if !strings.Contains(got, first.row()+"`TestA`: gone |\n"+second.row()+none+" |\n") {
		t.Errorf("got %s", got)
	}
}

func TestFirstFailure(t *testing.T) {
	for _, c := range []struct{ out, want string }{
		{"ok  \tnotifyworker/integration\t2.1s\n", ""},
		{
			`--- FAIL: TestEveryPair (0.00s)
    --- FAIL: TestEveryPair/nothing_waits (1.00s)
        play_test.go:59: enqueue and reserve, when nothing waits, in the order 0101: lost
            	A: enqueue
FAIL
`, "`TestEveryPair`: enqueue and reserve, when nothing waits, in the order 0101: lost",
		},
		{"--- FAIL: TestLot (1.00s)\n    lot_test.go:1: the seed is 7\n    lot_test.go:9: got 2\nFAIL\n", "`TestLot`: got 2"},
		{"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA/x (1m0s)\n\t\tTestA/y (1m0s)\n\ngoroutine 1 [running]:\nFAIL\n", "`TestA`: no end"},
		{"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (1m0s)\n\t\tTestB (59s)\n\ngoroutine 1 [running]:\nFAIL\n", "`TestA`, `TestB`: no end"},
	} {
		if got := firstFailure(c.out); got != c.want {
			t.Errorf("got %q, want %q, of\n%s", got, c.want, c.out)
		}
	}
}
