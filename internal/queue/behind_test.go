package queue_test

import (
	"context"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// meanwhile is a DB that does something else, once: between the moment when a Reserve was decided on and its query, and between
// the query of a look behind it, which is for one row, and the moment when its outcome is known here.
type meanwhile struct {
	queue.DB
	reserve, behind func()
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

func (m *meanwhile) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	once(&m.reserve)
	return m.DB.Query(ctx, sql, args...)
}

func (m *meanwhile) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return row{m.DB.QueryRow(ctx, sql, args...), m}
}

type row struct {
	pgx.Row
	m *meanwhile
}

func (r row) Scan(into ...any) error {
	err := r.Row.Scan(into...)
	once(&r.m.behind)
	return err
}

// slowTable is one whose looks start near the last jobs found.
func slowTable(t *testing.T) (table, *meanwhile) {
	t.Helper()
	m := &meanwhile{}
	tb := newTable(t, func(c *queue.Config) { m.DB, c.DB = c.DB, m })
	due(tb, "0 s")
	tb.one()
	tb.LooksAreSlow(-time.Second, -time.Second)
	return tb, m
}

// A look that is under way, and finds newer jobs, doesn't lead away again from the job that was found behind it.
func TestALookThatIsUnderWayPassesOverNoJobThatWasFoundBehindIt(t *testing.T) {
	for _, kind := range []struct {
		late string
		look func(table) bool
	}{{"20 s", func(tb table) bool { return tb.lookBetween().Job }}, {"1 hour", table.lookBack}} {
		t.Run(kind.late, func(t *testing.T) {
			tb, m := slowTable(t)
			early, recent := due(tb, kind.late), due(tb, "0 s")
			m.reserve = func() {
				if !kind.look(tb) {
					t.Error("the job was not found")
				}
			}
			tb.reserves("the look under way", recent)
			tb.reserves("the next look", early)
			recent = due(tb, "0 s")
			tb.reserves("the one after it", recent)
			due(tb, kind.late)
			if r := tb.reserve(5); len(r.Jobs) != 0 {
				t.Errorf("reserved %+v: looks don't start near the last jobs any more", r.Jobs)
			}
		})
	}
}

// A look back that began before that job was committed, and found none, doesn't lead away from it either.
func TestALookBackLeadsAwayFromNoJobThatTheLookInBetweenFound(t *testing.T) {
	tb, m := slowTable(t)
	var early int64
	m.behind = func() {
		early = due(tb, "32 s")
		if !tb.lookBetween().Job {
			t.Error("the look in between did not find the job")
		}
	}
	if tb.lookBack() {
		t.Fatal("the look back found a job: the test has not shown what it should")
	}
	tb.LooksAreSlow(time.Hour, time.Hour)
	tb.reserves("the next look", early)
}

// Whoever looks while a look behind it is under way may miss the same job: then there is another one.
func TestALookBehindServesOnlyThoseThatEndedBeforeIt(t *testing.T) {
	for name, look := range map[string]func(*queue.Store, context.Context) (queue.Behind, error){
		"between": (*queue.Store).LookBetween, "back": (*queue.Store).LookBack,
	} {
		t.Run(name, func(t *testing.T) {
			for _, looks := range []bool{false, true} {
				tb, m := slowTable(t)
				due(tb, "10 minutes") // else the look back takes full looks for quick
				if looks {
					m.behind = func() { tb.reserve(5) }
				}
				b, err := look(tb.Store, t.Context())
				if err != nil || b.Again.IsZero() == looks || looks && !within(b.Again, time.Minute) {
					t.Errorf("got %+v, %v; looked meanwhile: %t", b, err, looks)
				}
			}
		})
	}
}

// One that failed has seen nothing.
func TestAFailedLookBehindIsWantedAgain(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	tb, _ := slowTable(t)
	if b, err := tb.LookBetween(gone); err == nil || !within(b.Again, 2*time.Second) {
		t.Errorf("got %+v, %v, want an error and a time within 2 s", b, err)
	}
	if b, err := tb.LookBack(gone); err == nil || !within(b.Again, time.Minute) {
		t.Errorf("got %+v, %v, want an error and a time within a minute", b, err)
	}
}

// It takes milliseconds, so the next one need not wait for as long as one that took a tenth of a second.
func TestAQuickLookInBetweenIsSoonFollowedByAnother(t *testing.T) {
	tb, _ := slowTable(t)
	for range 10 { // a busy machine may be slow, but not each time
		tb.LooksAreSlow(-time.Second, time.Hour)
		tb.lookBetween()
		switch r := tb.reserve(5); {
		case !within(r.LookBetween, 2*time.Second):
			t.Fatalf("the next one at %s, want it within 2 s", r.LookBetween)
		case within(r.LookBetween, time.Second):
			return
		}
	}
	t.Error("the next one came a second later or more")
}
