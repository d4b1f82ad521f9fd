package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

const ran = 2000

// pinned pins vacuum until the test ends.
func (tb table) pinned() {
	tb.t.Helper()
	report, err := tb.conn().BeginTx(tb.t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		tb.t.Fatal(err)
	}
	tb.t.Cleanup(func() { _ = report.Rollback(context.Background()) })
	if _, err := report.Exec(tb.t.Context(), "SELECT 1 FROM notifyworker.jobs"); err != nil {
		tb.t.Fatal(err)
	}
}

// over has jobs and refreshes behind it that nobody has any more.
func (tb table) over() {
	tb.t.Helper()
	tb.exec(`INSERT INTO notifyworker.jobs (type) SELECT 't' FROM generate_series(1, $1::int)`, ran)
	tb.exec(`SELECT notifyworker.reserve($1, gen_random_uuid(), 1)`, ran)
	tb.exec(`UPDATE notifyworker.jobs SET status = 'COMPLETED', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, finished_at = now()`)
	tb.refreshing(ran, "-10 s")
	tb.exec(`UPDATE notifyworker.refreshes SET status = 'DONE', lock_token = NULL, lease_expires_at = NULL, finished_at = now()`)
}

// reads returns a function that tells how many entries of the indexes of leases a statement reads.
func (tb table) reads() func(sql string, args ...any) int64 {
	tb.t.Helper()
	asker := tb.conn()
	entries := func() (n int64) {
		tb.t.Helper()
		_, err := asker.Exec(tb.t.Context(), "SELECT pg_stat_force_next_flush()")
		if err == nil {
			err = asker.QueryRow(tb.t.Context(), `SELECT pg_stat_get_tuples_returned('notifyworker.jobs_lease_idx'::regclass)
				+ pg_stat_get_tuples_returned('notifyworker.refreshes_lease_idx'::regclass)`).Scan(&n)
		}
		if err != nil {
			tb.t.Fatal(err)
		}
		return n
	}
	return func(sql string, args ...any) int64 {
		tb.t.Helper()
		before := entries()
		if _, err := asker.Exec(tb.t.Context(), sql, args...); err != nil {
			tb.t.Fatal(err)
		}
		return entries() - before
	}
}

// While vacuum is pinned, the leases of all that ran stay in their index. Who looks near the last jobs, or for leases that ended of late,
// doesn't read them.
func TestNobodyReadsAllLeasesThatEverWereWhileVacuumIsPinned(t *testing.T) {
	some := newTable(t)
	const me = "00000000-0000-0000-0000-000000000001"
	for name, c := range map[string]struct {
		all, near string
		entries   int64
	}{
		"a look":                     {`SELECT notifyworker.next_due('-infinity')`, `SELECT notifyworker.next_due(clock_timestamp())`, 2 * ran},
		"jobs to rescue":             {`SELECT notifyworker.expired(10)`, `SELECT notifyworker.expired(10, '{}', 1)`, ran},
		"refreshes to take over":     {`SELECT notifyworker.take_over_refreshes('` + me + `', 60000, 10)`, `SELECT notifyworker.take_over_refreshes('` + me + `', 60000, 10, 1)`, ran},
		"what is a worker's own":     {`SELECT notifyworker.expired(10)`, strings.ReplaceAll(some.MineText(), "$1", "'"+me+"'"), ran},
		"jobs that were handed over": {`SELECT notifyworker.expired(10)`, `SELECT notifyworker.take_over(10, NULL, '` + me + `', 60000)`, ran},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t)
			tb.pinned()
			tb.over()
			tb.exec(`SELECT pg_advisory_lock(1853292549, 5)`) // somebody can be handed jobs
			reads := tb.reads()
			if n := reads(c.all); n < c.entries {
				t.Fatalf("all of them are %d entries: the test has not shown what it should", n)
			}
			if n := reads(c.near); n > ran/100 {
				t.Errorf("it reads %d entries of leases that nobody has any more", n)
			}
		})
	}
}

// Leases that have not ended are none of a search's business.
func TestASearchForEndedLeasesReadsNoOthers(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type) SELECT 't' FROM generate_series(1, $1::int)`, ran)
	tb.reserve(ran)
	if n := tb.reads()(`SELECT notifyworker.expired(10)`); n > ran/100 {
		t.Errorf("it reads %d entries", n)
	}
}

// Where a search of all is slow, what ended of late is rescued all the same, and the others by the next search of all.
func TestWhatEndedOfLateIsRescuedThoughSearchesOfAllAreSlow(t *testing.T) {
	tb := newTable(t)
	tb.exec(`INSERT INTO notifyworker.jobs (type) SELECT 't' FROM generate_series(1, 3)`)
	tb.reserve(3)
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - id * $1 * interval '1 s'`, queue.EndedOfLate.Seconds()/2.5)
	rescues := func(by func(context.Context, int) ([]queue.Rescued, error), want string) {
		t.Helper()
		rescued, err := by(t.Context(), 10)
		var ids []int64
		for _, r := range rescued {
			ids = append(ids, r.ID)
		}
		if got := fmt.Sprint(ids); got != want || err != nil {
			t.Errorf("rescued %s, %v, want %s", got, err, want)
		}
	}
	tb.SearchesAreSlow(time.Hour)
	rescues(tb.Rescue, "[2 1]")
	rescues(tb.RescueAll, "[]")
	tb.SearchesAreSlow(0)
	rescues(tb.RescueAll, "[3]")
	for range 50 { // a machine that stands still for a moment makes a search a slow one
		if tb.Ended().Within() == nil {
			rescues(tb.RescueAll, "[]")
			return
		}
		tb.SearchesAreSlow(0)
		rescues(tb.RescueAll, "[]")
	}
	t.Error("the search of all was quick, and the next one is not for all")
}

// While they are quick, nothing is searched for twice.
func TestRescueIsForAllWhileThatIsQuick(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t')`)
	tb.reserve(1)
	tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() - interval '1 day'`)
	if rescued, err := tb.RescueAll(t.Context(), 10); len(rescued) != 0 || err != nil {
		t.Errorf("%v, %v", rescued, err)
	}
	if rescued, err := tb.Rescue(t.Context(), 10); len(rescued) != 1 || err != nil {
		t.Errorf("%v, %v", rescued, err)
	}
}
