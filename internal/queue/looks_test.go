package queue_test

import (
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

func due(tb table, ago string) int64 {
	tb.t.Helper()
	return value[int64](tb, `INSERT INTO notifyworker.jobs (type, run_after) VALUES ('x', clock_timestamp() - $1::text::interval) RETURNING id`, ago)
}

func dueBefore(tb table, last queue.Job, ago string) int64 {
	tb.t.Helper()
	return value[int64](tb, `INSERT INTO notifyworker.jobs (type, run_after) VALUES ('x', $1::timestamptz - $2::text::interval) RETURNING id`, last.RunAfter, ago)
}

// reserves wants exactly this job of a look for more.
func (tb table) reserves(what string, id int64) queue.Reservation {
	tb.t.Helper()
	r := tb.reserve(5)
	if len(r.Jobs) != 1 || r.Jobs[0].ID != id {
		tb.t.Fatalf("%s reserved %+v, want the job %d alone", what, r.Jobs, id)
	}
	return r
}

func (tb table) lookBetween() queue.Behind {
	tb.t.Helper()
	b, err := tb.LookBetween(tb.t.Context())
	if err != nil {
		tb.t.Fatal(err)
	}
	return b
}

func (tb table) lookBack() bool {
	tb.t.Helper()
	b, err := tb.LookBack(tb.t.Context())
	if err != nil {
		tb.t.Fatal(err)
	}
	return b.Job
}

// within says whether it is a time from now on, but no later than in d.
func within(at time.Time, d time.Duration) bool {
	left := time.Until(at)
	return !at.IsZero() && left > 0 && left <= d
}

// While full looks are slow, a look starts near the last jobs found. A job whose transaction took some seconds waits for the
// next look in between, one whose transaction took longer than half a minute for the next look back, and the caller is told
// when they are.
func TestWhileLooksAreSlowAJobThatCommittedLateWaitsForALookThatReachesIt(t *testing.T) {
	for _, late := range []struct {
		by   string
		back bool
	}{{by: "0.2 s"}, {by: "1 s"}, {by: "29.9 s"}, {by: "1 minute", back: true}, {by: "1 hour", back: true}} {
		t.Run(late.by, func(t *testing.T) {
			tb := newTable(t)
			due(tb, "0 s")
			last := tb.one()
			tb.LooksAreSlow(time.Hour, time.Hour)
			early, recent := dueBefore(tb, last, late.by), dueBefore(tb, last, "0.05 s")
			r := tb.reserves("a look near the last jobs", recent)
			if !within(r.LookBetween, time.Hour) || !within(r.LookBack, time.Hour) {
				t.Errorf("look between at %s, look back at %s: the looks that reach further are not announced", r.LookBetween, r.LookBack)
			}
			r = tb.reserve(5)
			if len(r.Jobs) != 0 || r.NextDue >= 0 || !within(r.LookBetween, time.Hour) || !within(r.LookBack, time.Hour) {
				t.Errorf("got %+v, want no job, and the times of the looks that reach further", r)
			}
			if !r.LastFrom.After(time.Now().Add(-time.Hour)) {
				t.Errorf("the look before is said to have started at %s", r.LastFrom)
			}
			if b := tb.lookBetween(); b.Job || !within(b.Again, time.Hour) || tb.lookBack() {
				t.Errorf("looked further before it was time, or got %+v", b)
			}

			tb.LooksAreSlow(-time.Second, time.Hour) // the look in between is due
			b := tb.lookBetween()
			if b.Job == late.back || !b.Again.IsZero() {
				t.Errorf("got %+v: what it has not seen is not for another one", b)
			}
			if !late.back {
				tb.reserves("the look after it", early)
				return
			}
			if r = tb.reserve(5); len(r.Jobs) != 0 || !within(r.LookBetween, 2*time.Second) {
				t.Fatalf("the look after it reserved %+v", r)
			}
			tb.LooksAreSlow(time.Hour, -time.Second) // the look back is due
			if !tb.lookBack() {
				t.Error("the look back found nothing")
			}
			if tb.LooksAreFull() {
				t.Error("a look back that found a job at once is no sign that full looks are quick")
			}
			tb.reserves("the look after it", early)
			if tb.lookBack() {
				t.Error("looked back again at once")
			}
		})
	}
}

// Before a worker sleeps it looks further back than to the last jobs.
func TestTheLookAfterTheBarrierIsOneInBetween(t *testing.T) {
	tb := newTable(t)
	due(tb, "0 s")
	tb.one()
	tb.LooksAreSlow(time.Hour, time.Hour)
	early := due(tb, "20 s")
	if r := tb.reserve(5); len(r.Jobs) != 0 {
		t.Fatalf("reserved %+v: the test has not shown what it should", r.Jobs)
	}
	if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	r := tb.reserves("the look", early)
	if !r.LookBetween.IsZero() || r.LookBack.IsZero() {
		t.Errorf("look between at %s, look back at %s: want the latter alone", r.LookBetween, r.LookBack)
	}
	due(tb, "25 s")
	if r = tb.reserve(5); len(r.Jobs) != 0 || r.LookBetween.IsZero() {
		t.Errorf("got %+v of the look after it, want one near the last jobs", r)
	}
}

// Among live rows alone every look is a full one, and nobody needs to look back.
func TestQuickLooksAreFull(t *testing.T) {
	tb := newTable(t)
	for range 5 {
		due(tb, "0 s")
		tb.one()
		early := due(tb, "1 minute")
		r := tb.reserves("a full look", early)
		if !r.LookBetween.IsZero() || !r.LookBack.IsZero() || !r.LastFrom.IsZero() {
			t.Fatalf("look between at %s, look back at %s, the look before started at %s: want none", r.LookBetween, r.LookBack, r.LastFrom)
		}
	}
	if b := tb.lookBetween(); b != (queue.Behind{}) || tb.lookBack() {
		t.Error("looked further")
	}
}

// A look back moves on who has found nothing, but never past what waits.
func TestALookBackMovesTheLooksOnButPastNoJob(t *testing.T) {
	tb := newTable(t)
	due(tb, "1 hour")
	tb.one()
	tb.LooksAreSlow(time.Hour, -time.Second)
	if tb.lookBack() {
		t.Error("found a job where none waits")
	}
	tb.LooksAreSlow(time.Hour, time.Hour) // the look back was quick
	due(tb, "5 minutes")
	early := due(tb, "10 minutes")
	recent := due(tb, "20 s")
	tb.reserves("a look from where the look back had ended", recent)

	tb.LooksAreSlow(time.Hour, -time.Second)
	if !tb.lookBack() {
		t.Error("the look back found nothing")
	}
	tb.LooksAreSlow(time.Hour, -time.Second)
	if tb.lookBack() {
		t.Error("found again what the next look reaches")
	}
	if r := tb.reserve(5); len(r.Jobs) != 2 || r.Jobs[0].ID != early {
		t.Errorf("reserved %+v, want the two that the look back has found, %d first", r.Jobs, early)
	}
}

// A real server and a real snapshot: dead entries that nothing removes make looks start further on, a job that committed late
// is found all the same, and once the snapshot is gone each look is a full one again.
func TestBehindAnOldSnapshotAJobThatCommittedLateIsFound(t *testing.T) {
	d := pgtest.DB(t)
	pool := d.Pool(t)
	s, err := queue.New(queue.Config{DB: pool, WorkerID: workerA})
	if err != nil {
		t.Fatal(err)
	}
	tb := table{Store: s, pool: pool, t: t}
	reader := d.Conn(t)
	snapshot := func(sql string) {
		t.Helper()
		if _, err := reader.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	snapshot("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class")
	const inBulk = "SET session_replication_role = replica" // no announcements: this is about what the jobs leave
	bulk := d.Conn(t)
	for _, sql := range []string{
		inBulk,
		`INSERT INTO notifyworker.jobs (type, run_after) SELECT 'x', clock_timestamp() - interval '1 hour' + n * interval '1 ms' FROM generate_series(1, 200000) n`,
		`DELETE FROM notifyworker.jobs`,
	} {
		if _, err := bulk.Exec(t.Context(), sql, pgx.QueryExecModeExec); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		due(tb, "0 s")
		if r := tb.reserveBriefly(2); len(r.Jobs) != 1 { // who sleeps looks no other way first
			t.Fatalf("reserved %+v", r)
		}
	}
	if tb.LooksAreFull() {
		t.Fatal("three looks past 200,000 dead entries were quick: the test has not shown what it should")
	}
	early := due(tb, "2 minutes")
	recent := due(tb, "0 s")
	tb.LooksAreSlow(time.Hour, -time.Second)
	tb.reserves("a look near the last jobs", recent)
	if !tb.lookBack() {
		t.Error("the look back found nothing")
	}
	tb.LooksAreSlow(time.Hour, time.Hour)
	tb.reserves("the look after it", early)

	snapshot("ROLLBACK")
	for n := 0; !tb.LooksAreFull(); n++ {
		if n == 100 {
			t.Fatal("after a hundred looks back past no dead entries, looks are still not full")
		}
		tb.exec("VACUUM (TRUNCATE off) notifyworker.jobs")
		tb.LooksAreSlow(time.Hour, -time.Second)
		tb.lookBack()
	}
	early = due(tb, "3 minutes")
	tb.reserves("a full look", early)
}
