package faults

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// B44: migrations against live workers, twice at once, and killed half-way.
func TestB44MigrationsBesideLiveWorkersNeitherDeadlockNorStopThem(t *testing.T) {
	r := onDatabase(t)
	for range 3 {
		r.worker("--chunk=2")
	}
	load := r.clients(4, 8, 10*time.Millisecond)
	// The definitions are another binary's, so that each migrate installs all of them anew.
	stale := func() { r.exec("UPDATE notifyworker.schema_definition SET checksum = 'of another binary'") }
	migrate := func() *process {
		p := start(t, "migrate", []string{"DATABASE_URL=" + r.url}, "migrate")
		p.expected.Store(true)
		return p
	}
	var slowest time.Duration
	installed := func(p *process) {
		t.Helper()
		began := time.Now()
		if code := p.exit(time.Minute); code != 0 {
			t.Errorf("migrate ended with code %d:\n%s", code, p.log.tail(20))
		}
		slowest = max(slowest, time.Since(began))
	}
	for range times(3, 50) {
		stale()
		a, b := migrate(), migrate()
		installed(a)
		installed(b)
		stale()
		c := migrate()
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond) // the fault itself: killed at a random moment
		c.kill()
		installed(migrate())
	}
	load.stop()
	r.settle(30 * time.Second)
	r.judge(load)
	atMost(t, "the slowest migration", slowest, 10*time.Second)
	atMost(t, "the slowest enqueue beside them", load.slowest, 2*time.Second)
}

// B44: a binary does not run on a schema that is not its own, and says what to do.
func TestB44AWorkerOnAnotherSchemaRefusesToStart(t *testing.T) {
	for what, c := range map[string]struct{ sql, says string }{
		"newer tables": {
			"INSERT INTO notifyworker.schema_version (version, name, checksum, done, duration_ms) SELECT max(version) + 1, 'more', 'x', true, 1 FROM notifyworker.schema_version",
			"newer binary",
		},
		"other functions": {"UPDATE notifyworker.schema_definition SET checksum = 'of another binary'", "notifyworker migrate"},
		"no schema":       {"DROP SCHEMA notifyworker CASCADE", "notifyworker migrate"},
	} {
		t.Run(what, func(t *testing.T) {
			r := onDatabase(t)
			r.exec(c.sql)
			p := r.launch(r.url)
			p.expected.Store(true)
			if code := p.exit(startup); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if text := p.log.tail(3); !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q: %s", c.says, text)
			}
		})
	}
}
