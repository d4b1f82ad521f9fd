package locks_test

import (
	"os"
	"strings"
	"testing"

	"notifyworker/integration/model/locks"
)

func TestThePageHasEveryLine(t *testing.T) {
	page := page(t)
	for _, l := range lines {
		if !strings.Contains(page, "| "+l.without+" |") && !strings.Contains(page, ": that "+l.without+".") {
			t.Errorf("docs/model.md lacks %q", l.without)
		}
	}
}

func TestThePagesExampleIsWhatTheModelFinds(t *testing.T) {
	r := explored(t, scenario(t, "isolation levels mixed"), locks.Protocol{NoSuccessor: true})
	if example := strings.Join(r.Trace, "\n"); !strings.Contains(page(t), "```text\n"+example+"\n```") {
		t.Errorf("docs/model.md doesn't have this:\n%s", example)
	}
}

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
