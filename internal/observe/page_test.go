package observe_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"notifyworker/internal/observe"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePageHasEveryMetric(t *testing.T) {
	families, err := newParts().observer(observe.Config{}).Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	have, told := map[string]bool{}, map[string]bool{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "notifyworker_") {
			have[f.GetName()] = true
		}
	}
	_, section, _ := strings.Cut(page(t), "## Metrics\n")
	section, alerts, _ := strings.Cut(section, "## What to alert on\n")
	for line := range strings.Lines(section) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				told[m[1]] = true
			}
		}
	}
	if !maps.Equal(have, told) {
		t.Errorf("the process has\n%v\nthe page tells of\n%v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(told)))
	}
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	for _, name := range regexp.MustCompile(`notifyworker_[a-z_]+`).FindAllString(alerts, -1) {
		if !have[name] {
			t.Errorf("the page would alert on %s, which is not there", name)
		}
	}
}

func TestThePageHasEveryReason(t *testing.T) {
	code, err := os.ReadFile("health.go")
	if err != nil {
		t.Fatal(err)
	}
	var have, told []string
	for _, m := range regexp.MustCompile(`\tcode\w+ += "([a-z_]+)"`).FindAllStringSubmatch(string(code), -1) {
		have = append(have, m[1])
	}
	_, section, _ := strings.Cut(page(t), "## Why not ready\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		told = append(told, m[1])
	}
	if !slices.Equal(have, told) {
		t.Errorf("the code has %v, the page %v", have, told)
	}
}
