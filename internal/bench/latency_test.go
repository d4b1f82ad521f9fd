package bench

import (
	"testing"
	"time"
)

func TestTheTimeOfClientsBeginsWhenAllAreConnected(t *testing.T) {
	r := benchRun(t, Config{Slice: 500 * time.Millisecond})
	c := &contender{kind: advisory}
	if err := r.prepare(t.Context(), []*contender{c}); err != nil {
		t.Fatal(err)
	}
	fast := r.place.url
	defer func() { r.place.url = fast }()
	slow, err := withSettings(r.place.url, map[string]string{"post_auth_delay": "1"}) // seconds, longer than all the time there is
	if err != nil {
		t.Fatal(err)
	}
	r.place.url = slow
	const rate = steadyRate - 1 // of one client
	n, took, err := r.openLoop(t.Context(), c, rate, r.cfg.Slice)
	if err != nil || n == 0 || took > 900*time.Millisecond {
		t.Errorf("%d jobs were enqueued in %v: %v", n, took, err)
	}
}
