package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	testName     = regexp.MustCompile("`(Test[A-Z]\\w*)`")
)

// tests are the names of all tests below a folder, by the folder that they are in.
func tests(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = filepath.ToSlash(filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A promise is worth the test that holds it: so the page names only tests that exist, and all tests of faults are on it.
func TestThePageOfGuaranteesNamesTheTestsThatHoldThem(t *testing.T) {
	page := read(t, "guarantees.md")
	named := map[string]bool{}
	all := tests(t, "..")
	for _, m := range testName.FindAllStringSubmatch(page, -1) {
		named[m[1]] = true
		if all[m[1]] == "" {
			t.Errorf("the page names %s, which does not exist", m[1])
		}
	}
	for name, folder := range all {
		if (strings.HasSuffix(folder, "integration/faults") || regexp.MustCompile(`^TestB\d\d`).MatchString(name)) && !named[name] {
			t.Errorf("%s of %s is not on the page", name, folder)
		}
	}
}
