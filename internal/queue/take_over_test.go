package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifyworker/internal/queue"
)

// takesOver takes over what it can of these jobs, and wants exactly so many.
func (tb table) takesOver(s *queue.Store, want, most int, ids ...int64) []queue.Job {
	tb.t.Helper()
	js, err := s.TakeOver(tb.t.Context(), ids, most, 0)
	if err != nil || len(js) != want {
		tb.t.Fatalf("took over %+v of %d, %v, want %d", js, ids, err, want)
	}
	return js
}

func TestAJobThatItsWorkerLetLieIsTakenOverUnderANewToken(t *testing.T) {
	tb := newHandedTable(t)
	other := tb.other(tb.pool, func(c *queue.Config) {
		c.Types = map[string]queue.TypeSettings{"": {Lease: 20 * time.Second}, "slow": {Lease: time.Hour}}
	})
	for kind, lease := range map[string]time.Duration{"t": 20 * time.Second, "slow": time.Hour} {
		id := value[int64](tb, `INSERT INTO notifyworker.jobs (type, config, attempts) VALUES ($1, '{"n": 1}', 4) RETURNING id`, kind)
		tb.runsFor(workerA, id)
		old := value[string](tb, `SELECT lock_token::text FROM notifyworker.jobs WHERE id = $1`, id)
		j := tb.takesOver(other, 1, 1, id)[0]
		tb.runsFor(workerB, id)
		if j.ID != id || j.Type != kind || string(j.Config) != `{"n": 1}` || j.Attempt != 5 || j.Token == old || j.Token[14] != '4' || j.LeaseUntil.Sub(j.StartedAt) != lease {
			t.Errorf("took over %+v", j)
		}
		if got := value[string](tb, `SELECT lock_token || ' ' || attempts FROM notifyworker.jobs WHERE id = $1`, id); got != j.Token+" 5" {
			t.Errorf("the row has %s, want %s 5", got, j.Token)
		}
		takesNothing(t, tb.Store, id)
		if c, err := tb.Complete(t.Context(), []queue.Completion{{ID: id, Token: old}}); err != nil || !slices.Equal(c.Lost, []int64{id}) {
			t.Errorf("who let it lie concluded it: %+v, %v", c, err)
		}
		if c, err := other.Complete(t.Context(), []queue.Completion{{ID: id, Token: j.Token}}); err != nil || !slices.Equal(c.Done, []int64{id}) {
			t.Errorf("who has it could not conclude it: %+v, %v", c, err)
		}
		tb.wants(tb.Store)
	}
	if n := tb.takenLocks(); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

func TestAWorkerThatLetsAJobLieIsHandedNoMoreUntilItSaysSo(t *testing.T) {
	tb := newHandedTable(t)
	other := tb.other(tb.pool)
	tb.takesOver(other, 1, 1, tb.handed("t"))
	if !value[bool](tb, `SELECT hands IS NULL AND wants_notify FROM notifyworker.workers`) {
		t.Error("it is handed jobs, or not even told of them")
	}
	if got := tb.status(value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('t')`)); got != "PENDING" {
		t.Errorf("the next job is %s", got)
	}
	tb.wants(tb.Store)
	tb.handed("t")
}

// A notification may come from anybody, so whoever takes over is asked for jobs of any kind.
func TestAJobIsNotTakenOverFromWhoHasIt(t *testing.T) {
	for name, prepare := range map[string]func(tb table) int64{
		"its worker has taken it": func(tb table) int64 { return tb.take(tb.handed("t"))[0].ID },
		"its worker took it, and has let another go": func(tb table) int64 {
			a, b := tb.handed("t"), tb.handed("t")
			tb.Let(tb.take(a, b)[0])
			tb.givesBack()
			return b
		},
		"it was reserved by a look": func(tb table) int64 {
			tb.exec(`SELECT notifyworker.enqueue_job('t', delay => '1 h')`)
			tb.exec(`UPDATE notifyworker.jobs SET run_after = now()`)
			return tb.one().ID
		},
		"it was reserved by a look, under a token that ends like a session's key": func(tb table) int64 {
			tb.exec(`SELECT notifyworker.enqueue_job('t', delay => '1 h')`)
			tb.exec(`UPDATE notifyworker.jobs SET run_after = now()`)
			id := tb.one().ID
			tb.exec(`UPDATE notifyworker.jobs SET lock_token = (left(lock_token::text, 28) ||
				(SELECT lpad(to_hex((hands -> 'key')::integer), 8, '0') FROM notifyworker.workers))::uuid`)
			return id
		},
		"it waits": func(tb table) int64 {
			return value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('t', delay => '1 h')`)
		},
		"it is over": func(tb table) int64 {
			h := tb.take(tb.handed("t"))[0]
			if _, err := tb.Complete(tb.t.Context(), []queue.Completion{{ID: h.ID, Token: h.Token}}); err != nil {
				tb.t.Fatal(err)
			}
			tb.Let(h)
			tb.givesBack()
			return h.ID
		},
		"it came back, and was reserved by a look": func(tb table) int64 {
			id := tb.handed("t")
			tb.exec(`SELECT notifyworker.requeue(id, 'released', lock_token) FROM notifyworker.jobs`)
			if j := tb.one(); j.ID != id {
				tb.t.Fatalf("reserved %+v", j)
			}
			return id
		},
		"its worker's session has ended": func(tb table) int64 {
			id := tb.handed("t")
			tb.endHands()
			return id
		},
		"its worker has another session by now": func(tb table) int64 {
			id := tb.handed("t")
			tb.endHands()
			tb.opens(tb.Store)
			tb.wants(tb.Store)
			return id
		},
		"somebody else has taken it over": func(tb table) int64 {
			id := tb.handed("t")
			tb.takesOver(tb.other(tb.pool, func(c *queue.Config) { c.WorkerID = "cccccccc-0000-4000-8000-000000000003" }), 1, 1, id)
			return id
		},
		"it is nobody's": func(table) int64 { return 4711 },
	} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t)
			id := prepare(tb)
			const rows = `SELECT coalesce(string_agg(j::text, ' ' ORDER BY j.id), '') || (SELECT string_agg(w::text, ' ') FROM notifyworker.workers w) FROM notifyworker.jobs j`
			before, locks := value[string](tb, rows), tb.takenLocks()
			tb.takesOver(tb.other(tb.pool), 0, 9, id)
			if after := value[string](tb, rows); after != before || tb.takenLocks() != locks {
				t.Errorf("before: %s\nafter: %s", before, after)
			}
		})
	}
	t.Run("it is its own", func(t *testing.T) {
		tb := newHandedTable(t)
		tb.takesOver(tb.Store, 0, 9, tb.handed("t"))
	})
}

// What somebody holds locked with psql is passed over, not waited for.
func TestTakingOverWaitsForNobody(t *testing.T) {
	tb := newHandedTable(t)
	a, b := tb.handed("t"), tb.handed("t")
	other := tb.other(tb.impatientConn())
	tb.locked(fmt.Sprintf(`SELECT FROM notifyworker.jobs WHERE id = %d`, a), func() {
		if js := tb.takesOver(other, 1, 9, a, b); js[0].ID != b {
			t.Errorf("took over %+v", js)
		}
	})
	tb.runsFor(workerA, a)
	tb.wants(tb.Store)
	tb.locked(`SELECT FROM notifyworker.workers`, func() { tb.takesOver(other, 1, 9, a) })
	tb.runsFor(workerB, a)
	tb.handed("t") // it could not be said of that worker that it lets jobs lie
}

func TestNoMoreIsTakenOverThanIsAskedFor(t *testing.T) {
	tb := newHandedTable(t)
	ids := []int64{tb.handed("t"), tb.handed("t"), tb.handed("t"), tb.handed("t")}
	tb.take(ids[0])
	other := tb.other(tb.pool)
	if js := tb.takesOver(other, 2, 2, ids...); js[0].ID != ids[1] || js[1].ID != ids[2] {
		t.Errorf("took over %+v, want the first two that were not taken", js)
	}
	tb.runsFor(workerA, ids[3])
	tb.take(ids[3])
	tb.takesOver(other, 0, 0, ids...)
}

// All who listen may have fallen silent. Then a beat of one in reserve tells it that something lies there, and it need not know what.
func TestWhatWasHandedToASilentWorkerIsFoundWithoutBeingTold(t *testing.T) {
	tb := newHandedTable(t)
	other := tb.other(tb.pool)
	if err := other.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 2, Version: "v", Slots: 4}); err != nil {
		t.Fatal(err)
	}
	taken, lies := tb.handed("t"), tb.handed("t")
	tb.take(taken)
	tb.exec(`UPDATE notifyworker.workers SET last_beat = clock_timestamp() - interval '7 s' WHERE id = $1`, workerA)
	tb.exec(`UPDATE notifyworker.jobs SET started_at = started_at - interval '50 ms'`)
	if f, err := other.Beat(t.Context(), queue.Sign{Reserve: true}); err != nil || !f.Unheard {
		t.Errorf("the beat says %+v, %v, want that something lies there", f, err)
	}
	if j := tb.takesOver(other, 1, 5)[0]; j.ID != lies {
		t.Errorf("took over %+v, want job %d", j, lies)
	}
	if f, err := other.Beat(t.Context(), queue.Sign{Reserve: true}); err != nil || f.Unheard {
		t.Errorf("the beat says %+v, %v, though nothing lies there any more", f, err)
	}
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, taken)
	if f, err := other.Beat(t.Context(), queue.Sign{Reserve: true}); err != nil || !f.Unheard {
		t.Errorf("the beat says %+v, %v, want that a job lies there whose lease has ended", f, err)
	}
}

// Without ids: what was handed over long enough ago, to a session that lives, and one whose row is locked hides none.
func TestAnyThatLieThereAreTakenOver(t *testing.T) {
	tb := newHandedTable(t)
	other := tb.other(tb.pool)
	tb.LetEach()
	var ids []int64
	for range 3 {
		ids = append(ids, tb.handed("t"))
	}
	any := func(n int, ago time.Duration) (got []int64) {
		t.Helper()
		js, err := other.TakeOver(t.Context(), nil, n, ago)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range js {
			got = append(got, j.ID)
		}
		return got
	}
	if got := any(5, time.Hour); len(got) != 0 {
		t.Errorf("took over %d of %d, which were handed over a moment ago", got, ids)
	}
	tx, err := tb.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM notifyworker.jobs WHERE id = $1 FOR UPDATE`, ids[0]); err != nil {
		t.Fatal(err)
	}
	if got := any(1, 0); !slices.Equal(got, ids[1:2]) {
		t.Errorf("took over %d while somebody has the row of %d, want %d", got, ids[0], ids[1])
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := any(5, 0); !slices.Equal(got, []int64{ids[0], ids[2]}) {
		t.Errorf("took over %d, want %d and %d", got, ids[0], ids[2])
	}
}
