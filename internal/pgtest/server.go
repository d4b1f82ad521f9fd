package pgtest

import (
	"context"
	"os"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// Server is a server of the test's own, stopped after it: for tests that restart it, freeze it, or fill what sessions of
// all databases share. NOTIFYWORKER_PG chooses the binaries unless cfg does. A failed test shows the end of its log.
func Server(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	if cfg.Choice == "" && cfg.Major == 0 {
		cfg.Choice = os.Getenv(serverEnv)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	s, err := embedded.Start(ctx, cfg)
	if err != nil {
		t.Fatalf("the test needs a PostgreSQL of its own: %v\n%s", err, embedded.Ways())
	}
	t.Cleanup(func() {
		if t.Failed() {
			if log, err := s.Log(); err == nil {
				t.Logf("end of the server's log:\n%s", log[max(0, len(log)-4000):])
			}
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
