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
	args := append(with, "go", "test", "-overlay", overlay, "-short", "-failfast", "-timeout", "5m", "-run", m.run, cmp.Or(m.in, "./integration/"))
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		if strings.Contains(string(out), "no tests to run") {
			return "", fmt.Errorf("no test matches %s", m.run)
		}
		return "", nil
	case !errors.As(err, &failed):
		return "", err
	case strings.Contains(string(out), "[build failed]"), strings.Contains(string(out), "make a database for the test"):
		return "", fmt.Errorf("the mutation can't be installed: %s", out)
	}
	return firstFailure(string(out)), nil
}

var (
	failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) `)
	said     = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.+)$`)
)

// firstFailure finds the test that failed and the line that it said; a panic is one, too.
func firstFailure(out string) string {
	name, says := "?", ""
	if all := failLine.FindAllStringSubmatch(out, -1); all != nil {
		name = all[0][1]
		for _, m := range all {
			if strings.HasPrefix(m[1], name+"/") {
				name = m[1]
			}
		}
	} else if strings.Contains(out, "test timed out") {
		name = "the tests never end"
	}
	if m := said.FindStringSubmatch(out); m != nil {
		says = m[1]
	}
	top, _, _ := strings.Cut(name, "/")
	if says = strings.TrimSpace(says); len(says) > 200 {
		says = strings.ToValidUTF8(says[:200], "") + "…"
	}
	return "`" + top + "`: " + strings.ReplaceAll(says, "|", `\|`)
}
