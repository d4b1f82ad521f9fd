package locks_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"notifyworker/integration/model/explore"
	"notifyworker/integration/model/locks"
)

var large = flag.Bool("model.large", false, "explore the large scenarios, too: minutes, and some gigabytes of memory")

// bound is far above what any scenario needs: a model that grows without an end is stopped, and says so.
const bound = 20_000_000

func TestTheProtocolKeepsItsPromises(t *testing.T) {
	scenarios := locks.Small
	if *large {
		scenarios = append(scenarios, locks.Large...)
	}
	states := 0
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			r := explored(t, sc, locks.Protocol{})
			states += r.States
			if r.Wrong != "" {
				t.Errorf("not so:\n%s", told(r))
			}
		})
	}
	t.Logf("%d states in all", states)
}

func explored(t *testing.T, sc locks.Scenario, p locks.Protocol) explore.Result {
	t.Helper()
	began := time.Now()
	r, err := explore.Run(&locks.Model{Scenario: sc, Protocol: p}, bound)
	if err != nil {
		t.Fatalf("%d states: %v", r.States, err)
	}
	t.Logf("%d states, %d steps, at most %d deep, %v", r.States, r.Steps, r.Depth, time.Since(began).Round(time.Millisecond))
	return r
}

func told(r explore.Result) string { return "  " + strings.Join(r.Trace, "\n  ") }

func scenario(t *testing.T, name string) locks.Scenario {
	t.Helper()
	for _, sc := range locks.Small {
		if sc.Name == name {
			return sc
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return locks.Scenario{}
}
