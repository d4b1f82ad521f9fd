package queue_test

import (
	"testing"
	"time"

	"notifyworker/internal/queue"
)

func due(tb table, ago string) int64 {
	tb.t.Helper()
	return value[int64](tb, `INSERT INTO notifyworker.jobs (type, run_after) VALUES ('x', clock_timestamp() - $1::text::interval) RETURNING id`, ago)
}

// While full looks are slow, a look starts near the last jobs found: what lies before waits for the next full look, and the
// caller is told when that is.
func TestASlowLookIsMadeFullNowAndThen(t *testing.T) {
	tb := newTable(t)
	due(tb, "0 s")
	tb.one()
	tb.LooksAreSlow(time.Hour)
	early, late := due(tb, "1 minute"), due(tb, "0 s")
	r := tb.reserve(5)
	if len(r.Jobs) != 1 || r.Jobs[0].ID != late {
		t.Fatalf("reserved %+v, want the job %d alone, which lies after the place", r.Jobs, late)
	}
	if r.NextDue < 0 || r.NextDue > time.Hour {
		t.Errorf("next due in %s: the next full look is not announced", r.NextDue)
	}
	if r = tb.reserve(5); len(r.Jobs) != 0 || r.NextDue < 0 {
		t.Errorf("got %+v, want no job and the time of the next full look", r)
	}
	tb.LooksAreSlow(-time.Second) // the full look is due
	if j := tb.one(); j.ID != early {
		t.Errorf("the full look found %d, want %d", j.ID, early)
	}
}

// Before a worker sleeps it looks at everything, however slow that is.
func TestTheLookAfterTheBarrierIsFull(t *testing.T) {
	tb := newTable(t)
	due(tb, "0 s")
	tb.one()
	tb.LooksAreSlow(time.Hour)
	early := due(tb, "1 minute")
	if r := tb.reserve(5); len(r.Jobs) != 0 {
		t.Fatalf("reserved %+v: the test has not shown what it should", r.Jobs)
	}
	if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if j := tb.one(); j.ID != early {
		t.Errorf("found %d, want %d", j.ID, early)
	}
}

// Among live rows alone every look is a full one.
func TestQuickLooksAreFull(t *testing.T) {
	tb := newTable(t)
	for range 5 {
		due(tb, "0 s")
		tb.one()
		early := due(tb, "1 minute")
		if j := tb.one(); j.ID != early {
			t.Fatalf("found %d, want %d", j.ID, early)
		}
	}
}

// A lease that ended before the place is told by the next full look.
func TestASlowLookSeesTheLeasesOfRecentJobs(t *testing.T) {
	tb := newTable(t, func(c *queue.Config) {
		c.Types = map[string]queue.TypeSettings{"": {Lease: 5 * time.Second}}
	})
	due(tb, "0 s")
	tb.one()
	tb.LooksAreSlow(time.Hour)
	if r := tb.reserve(5); r.NextLease <= 0 || r.NextLease > 5*time.Second {
		t.Errorf("the next lease ends in %s, want one within 5 s", r.NextLease)
	}
}
