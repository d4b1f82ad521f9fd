package observe_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/observe"
	"notifyworker/internal/queue"

	"github.com/rs/zerolog"
)

func TestWhoPinsVacuumIsNamedOnceInAWhile(t *testing.T) {
	for name, state := range map[string]string{"seen": "idle in transaction", "hidden": "", "of a standby": "replication slot"} {
		age := time.Duration(-1)
		if name == "seen" {
			age = 90 * time.Second
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParts()
				p.store.pressure = queue.Pressure{Oldest: queue.Snapshot{PID: 4711, Horizon: "77", XIDs: 5, Age: age, Application: "report", User: "u", State: state}}
				var log strings.Builder
				d := p.watch(observe.New(observe.Config{}), "h:1/a", zerolog.New(&log))
				look := func(n int) {
					for range n {
						d.LookForPins(t.Context())
						time.Sleep(30 * time.Second)
					}
				}
				look(1)
				if warned := log.Len() > 0; warned != (age > 0) {
					t.Errorf("at the first look: %q", log.String())
				}
				look(9)
				if n := strings.Count(log.String(), `"pid":4711,"application":"report"`); n != 1 {
					t.Errorf("warned %d times in 5 min: %s", n, log.String())
				}
				if strings.Contains(log.String(), "pg_read_all_stats") != (state == "") {
					t.Errorf("advice: %s", log.String())
				}
				look(20)
				if n := strings.Count(log.String(), "keeps vacuum"); n < 2 || n > 3 {
					t.Errorf("warned %d times in 15 min", n)
				}
				p.store.pressure.Oldest = queue.Snapshot{}
				look(2)
				if n := strings.Count(log.String(), "again\""); n != 1 {
					t.Errorf("the end is told %d times: %s", n, log.String())
				}
			})
		})
	}
}

func TestShortTransactionsOneAfterTheOtherPinNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParts()
		var log strings.Builder
		d := p.watch(observe.New(observe.Config{}), "h:1/a", zerolog.New(&log))
		for i := range 20 {
			p.store.pressure.Oldest = queue.Snapshot{PID: 1, Horizon: string(rune('a' + i)), Age: -1}
			d.LookForPins(t.Context())
			time.Sleep(30 * time.Second)
		}
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}
