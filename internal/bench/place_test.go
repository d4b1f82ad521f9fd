package bench

import (
	"context"
	"testing"
)

// A connection string that run takes is good enough for a measurement.
func TestTheParametersOfAPoolAreTaken(t *testing.T) {
	r := benchRun(t, Config{})
	text, err := withSettings(r.place.url, map[string]string{"pool_max_conns": "3"})
	if err != nil {
		t.Fatal(err)
	}
	r.place.url = text
	cs := []*contender{{name: "here", kind: advisory}, {name: "the floor", kind: floor}}
	if err := r.prepare(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if err := r.with(t.Context(), cs, func(ctx context.Context) error { return r.warm(ctx, cs) }); err != nil {
		t.Error(err)
	}
	for _, c := range cs {
		if n, first := c.errors(); n > 0 {
			t.Errorf("%s: %d errors, the first %s", c.name, n, first)
		}
	}
	if why, err := r.slowDown(t.Context()); why != "" || err != nil {
		t.Errorf("a slow disk: %s, %v", why, err)
	}
}
