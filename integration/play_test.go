package integration

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	"notifyworker/integration/schedule"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

var onlyOrder = flag.String("order", "", "play this order of steps alone, as a failed schedule names it; use with -run")

const mostFailures = 3 // a script tells of; the others are likely the same

// theatre is one database and its connections, on which one goroutine plays schedules.
type theatre struct {
	*schedule.Stage
	w      *world
	played int
}

// schedules counts what all tests of this binary have played; the last line of the run tells.
var schedules atomic.Int64

func newTheatre(t *testing.T, sessions int, opts ...pgtest.Option) *theatre {
	t.Helper()
	st, err := schedule.Connect(t.Context(), pgtest.DB(t, opts...).URL, sessions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close(context.Background()) })
	th := &theatre{Stage: st, w: newWorld(st.Observer, map[*pgx.Conn]*queue.Store{})}
	st.After = th.w.look
	return th
}

// script makes its sessions anew for each schedule.
type script func(w *world) []schedule.Session

// everyOrder plays a script in every order of its steps, each from the scene on, and lets the world judge.
func (th *theatre) everyOrder(t *testing.T, name string, sc scene, sessions script) {
	t.Helper()
	var counts []int
	for _, s := range sessions(th.w) {
		counts = append(counts, len(s.Steps))
	}
	failures := 0
	for order := range schedule.Orders(counts...) {
		if *onlyOrder != "" && order.String() != *onlyOrder {
			continue
		}
		if err := th.play(t.Context(), sc, sessions, order); err != nil {
			t.Errorf("%s, when %s, in the order %s: %v", name, sc, order, err)
			if failFast() {
				t.FailNow()
			}
			if failures++; failures >= mostFailures {
				return
			}
		}
	}
}

func (th *theatre) play(ctx context.Context, sc scene, sessions script, order schedule.Order) error {
	// Dead rows of earlier schedules would lie in the way of all scans.
	if th.played%20 == 0 {
		if _, err := th.Observer.Exec(ctx, `VACUUM notifyworker.jobs, notifyworker.job_additions`); err != nil {
			return err
		}
	}
	th.played++
	schedules.Add(1)
	if err := th.w.set(ctx, sc); err != nil {
		return err
	}
	if err := th.Play(ctx, sessions(th.w), order); err != nil {
		return err
	}
	if err := th.w.verdict(ctx); err != nil {
		return fmt.Errorf("verdict: %w", err)
	}
	return nil
}

// failFast says whether -failfast was given: one failed schedule is enough, then.
func failFast() bool {
	f := flag.Lookup("test.failfast")
	return f != nil && f.Value.String() == "true"
}
