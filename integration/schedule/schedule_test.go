package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

func TestOrdersAreAllOfThem(t *testing.T) {
	var got []string
	for o := range Orders(2, 1) {
		got = append(got, o.String())
	}
	if want := []string{"001", "010", "100"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	n := 0
	for range Orders(2, 3, 2) {
		n++
	}
	if n != 210 || Count(2, 3, 2) != 210 {
		t.Errorf("%d orders, counted %d, want 210", n, Count(2, 3, 2))
	}
	for o := range Orders(3, 3) {
		if p, err := Parse(o.String()); err != nil || !slices.Equal(p, o) {
			t.Fatalf("%v was read as %v, %v", o, p, err)
		}
		break // leaving early ends the sequence
	}
	if _, err := Parse("01a"); err == nil {
		t.Error("a letter was read as a session")
	}
}

func stage(t *testing.T, n int) *Stage {
	t.Helper()
	s, err := Connect(t.Context(), pgtest.Empty(t).URL, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	if _, err := s.Observer.Exec(t.Context(), "CREATE TABLE row (id int PRIMARY KEY, n int); INSERT INTO row VALUES (1, 0), (2, 0)"); err != nil {
		t.Fatal(err)
	}
	return s
}

func sql(name, text string, w Waits) Step {
	return Step{Name: name, Waits: w, Do: func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	}}
}

func TestAStepThatWaitsIsSeenAndItsLaterStepsArePutOff(t *testing.T) {
	s := stage(t, 2)
	bump := []Step{sql("bump", "BEGIN; UPDATE row SET n = n + 1 WHERE id = 1", ForAnybody), sql("commit", "COMMIT", Never)}
	waited := 0
	s.After = func(_ context.Context, waiting bool) error {
		if waiting {
			waited++
		}
		return nil
	}
	for o := range Orders(2, 2) {
		if err := s.Play(t.Context(), []Session{{Name: "a", Steps: bump}, {Name: "b", Steps: bump}}, o); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := s.Observer.QueryRow(t.Context(), "SELECT n FROM row WHERE id = 1").Scan(&n); err != nil || n != 12 {
		t.Errorf("6 schedules bumped it to %d, %v", n, err)
	}
	if waited < 4 {
		t.Errorf("%d looks found somebody waiting, want one in each of 4 schedules", waited)
	}
}

func TestAForbiddenWaitFailsTheScheduleWithItsStory(t *testing.T) {
	s := stage(t, 2)
	hold := Session{Name: "client", Steps: []Step{sql("hold", "BEGIN; SELECT FROM row WHERE id = 1 FOR UPDATE", Never), sql("commit", "COMMIT", Never)}}
	for _, c := range []struct {
		waits   Waits
		worker  bool
		allowed bool
	}{{Never, true, false}, {ForWorkers, false, false}, {ForWorkers, true, true}, {ForAnybody, false, true}} {
		hold.Worker = c.worker
		asks := Session{Name: "asks", Steps: []Step{sql("lock", "SELECT FROM row WHERE id = 1 FOR UPDATE", c.waits)}}
		err := s.Play(t.Context(), []Session{hold, asks}, Order{0, 1, 0})
		if c.allowed && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if !c.allowed && (err == nil || !strings.Contains(err.Error(), "asks: lock waits for client\n\tclient: hold\n")) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestADeadlockEndsTheScheduleAndLeavesNothingRunning(t *testing.T) {
	s := stage(t, 2)
	x := func(first, second string) []Step {
		return []Step{sql("first", "BEGIN; "+first, ForAnybody), sql("second", second, ForAnybody), sql("commit", "COMMIT", Never)}
	}
	one, two := "UPDATE row SET n = 0 WHERE id = 1", "UPDATE row SET n = 0 WHERE id = 2"
	err := s.Play(t.Context(), []Session{{Name: "a", Steps: x(one, two)}, {Name: "b", Steps: x(two, one)}}, Order{0, 1, 0, 1, 0, 1})
	if err == nil || !strings.Contains(err.Error(), "40P01") {
		t.Fatalf("got %v", err)
	}
	for _, c := range s.Conns {
		if st := c.PgConn().TxStatus(); st != 'I' {
			t.Errorf("a session is left in state %c", st)
		}
	}
}

func TestWhatAfterSaysEndsTheSchedule(t *testing.T) {
	s := stage(t, 2)
	no := errors.New("it does not hold")
	s.After = func(context.Context, bool) error { return no }
	a := Session{Name: "a", Steps: []Step{sql("one", "BEGIN", Never), sql("two", "COMMIT", Never)}}
	err := s.Play(t.Context(), []Session{a}, Order{0, 0})
	var f *Failure
	if !errors.Is(err, no) || !errors.As(err, &f) || !slices.Equal(f.Story, []string{"a: one"}) {
		t.Errorf("got %v", err)
	}
}
