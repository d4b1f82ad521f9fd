package observe_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/observe"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// twoDatabases are watched by one process; the test changes the parts of the second.
func twoDatabases() (*observe.Observer, *parts, *observe.Database) {
	o, second := observe.New(observe.Config{}), newParts()
	newParts().watch(o, "h:1/a", zerolog.Nop())
	return o, second, second.watch(o, "h:1/b", zerolog.Nop())
}

func TestAProcessIsReadyWhenItIsForEachOfItsDatabases(t *testing.T) {
	o, second, b := twoDatabases()
	code, text := get(t, o, "/readyz")
	if code != http.StatusOK || !strings.HasPrefix(text, "ready\nh:1/a: listener: ") || !strings.Contains(text, "\nh:1/b: listener: ") {
		t.Errorf("status %d: %s", code, text)
	}
	b.Waiting(errors.New("connect: refused"))
	code, text = get(t, o, "/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "\nh:1/b: starting: waiting for the database: connect: refused (since ") || strings.Contains(text, "h:1/a: starting") {
		t.Errorf("status %d: %s", code, text)
	}
	_, text = get(t, o, "/readyz", "Accept", "application/json")
	var h observe.Health
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(h.Databases) != 2 || !h.Databases[0].Ready || h.Databases[1].Ready || len(h.Reasons) != 1 || h.Reasons[0].Database != "h:1/b" {
		t.Errorf("got %s", text)
	}
	_, text = get(t, o, "/metrics")
	for _, want := range []string{`notifyworker_ready{database="h:1/a"} 1`, `notifyworker_ready{database="h:1/b"} 0`, `notifyworker_slots{database="h:1/a"} 8`} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, `notifyworker_slots{database="h:1/b"}`) {
		t.Error("a worker that has ended is still told of")
	}
	second.watch(o, "h:1/c", zerolog.Nop())
	if problems, err := testutil.GatherAndLint(o.Registry()); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestOneStuckLoopOfSeveralIsNamed(t *testing.T) {
	o, second, _ := twoDatabases()
	second.worker.Turned = time.Now().Add(-2 * time.Minute)
	if code, text := get(t, o, "/livez"); code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "not live: h:1/b: the worker's loop has not turned") {
		t.Errorf("%d %s", code, text)
	}
}
