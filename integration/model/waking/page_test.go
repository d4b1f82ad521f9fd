package waking_test

import (
	"os"
	"strings"
	"testing"
)

func TestThePageHasEveryLine(t *testing.T) {
	b, err := os.ReadFile("../../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if !strings.Contains(string(b), "| "+l.without+" |") && !strings.Contains(string(b), ": that "+l.without+".") {
			t.Errorf("docs/model.md lacks %q", l.without)
		}
	}
}
