package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// try runs the tests with the mutation laid over the sources. It returns which test failed first and what it said, or "".
func (m mutation) try(with []string) (killer string, err error) {
	text, err := m.apply()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "changed"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o644); err != nil {
		return "", err
	}
	// What should notice comes first; then the whole package, before it is said that nothing does.
	in := cmp.Or(m.in, "./integration/")
	for _, some := range []struct{ run, timeout string }{{m.run, "60s"}, {".", "5m"}} {
		out, err := test(with, "-overlay", overlay, "-timeout", some.timeout, "-run", some.run, in)
		if names := unended(out); names != nil && err == nil {
			// A busy machine, or for ever? Most tests give up by themselves in the end, and then say on what.
			out, err = test(with, "-overlay", overlay, "-timeout", "150s", "-run", "^("+strings.Join(names, "|")+")$", in)
		}
		if err != nil {
			return "", err
		}
		killer = firstFailure(out)
		if killer == "" {
			continue
		}
		if some.run != m.run {
			// Not a test that was expected to: it has to notice again, alone, or it failed of something else.
			top, _, _ := strings.Cut(strings.TrimPrefix(killer, "`"), "`")
			out, err := test(with, "-overlay", overlay, "-timeout", "150s", "-run", "^"+top+"$", in)
			return firstFailure(out), err
		}
		return killer, nil
	}
	return "", nil
}

// test returns what go test said.
func test(with []string, args ...string) (string, error) {
	args = append(append(slices.Clone(with), "go", "test", "-vet=off", "-short", "-failfast"), args...)
	said, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	out := string(said)
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		return "", err
	case strings.Contains(out, "no tests to run"):
		return "", fmt.Errorf("no test matches: %s", strings.Join(args, " "))
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "make a database for the test"):
		return "", fmt.Errorf("the mutation can't be installed: %s", out)
	}
	return out, nil
}

var (
	failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) `)
	endless  = regexp.MustCompile(`test timed out after \S+\s+running tests:\n((?:\s+\S+ \(\S+\)\n)+)`)
	said     = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.+)$`)
)

// firstFailure finds the test that failed and the line that it said, or that did not end; "" when all passed.
func firstFailure(out string) string {
	if !strings.Contains(out, "FAIL") {
		return ""
	}
	name, says := "?", ""
	if all := failLine.FindAllStringSubmatch(out, -1); all != nil {
		name = all[0][1]
		for _, m := range all {
			if strings.HasPrefix(m[1], name+"/") {
				name = m[1]
			}
		}
	} else if names := unended(out); names != nil {
		return "`" + strings.Join(names, "`, `") + "`: no end"
	}
	for _, m := range said.FindAllStringSubmatch(out, -1) {
		if says = m[1]; !strings.HasPrefix(says, "the seed is") { // it comes first, whatever failed
			break
		}
	}
	top, _, _ := strings.Cut(name, "/")
	if says = strings.TrimSpace(says); len(says) > 200 {
		says = strings.ToValidUTF8(says[:200], "") + "…"
	}
	return "`" + top + "`: " + strings.ReplaceAll(says, "|", `\|`)
}

// unended names the tests that still ran when the time was over.
func unended(out string) []string {
	m := endless.FindStringSubmatch(out)
	if m == nil {
		return nil
	}
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(m[1]), "\n") {
		if top, _, _ := strings.Cut(strings.Fields(line)[0], "/"); !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	return names
}
