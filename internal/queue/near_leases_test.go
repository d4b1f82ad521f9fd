package queue_test

import (
	"testing"
	"time"
)

// refreshing makes n active refreshes, whose lease ends in so long.
func (tb table) refreshing(n int, lease string) {
	tb.t.Helper()
	tb.exec(`INSERT INTO notifyworker.refreshes (job_id, tenant_id, catalog_id, scope, product_ids, listed, article_ids, lock_token, lease_expires_at)
		SELECT 0, '00000000-0000-0000-0000-000000000000', 'c', 'PARTIAL', '["p1"]', true, '{p1}', gen_random_uuid(), clock_timestamp() + $2::text::interval
		  FROM generate_series(1, $1::int)`, n, lease)
}

// wantLease wants a look in between to tell of a lease that ends in about so long.
func (tb table) wantLease(in time.Duration) {
	tb.t.Helper()
	b := tb.lookBetween()
	if left := time.Until(b.Lease); b.Lease.IsZero() || left > in || left < in-30*time.Second || b.Job {
		tb.t.Errorf("got %+v, which is in %s; want a lease that ends in %s", b, left, in)
	}
}

// Who looks near the last jobs is told of leases by the look in between that follows, also of one that ended before the place.
func TestALookInBetweenTellsOfTheNextLease(t *testing.T) {
	for table, begin := range map[string]func(table){
		"jobs": func(tb table) {
			tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() + interval '1 hour'`)
		},
		"refreshes": func(tb table) {
			tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() + interval '2 hours'`)
			tb.refreshing(1, "1 hour")
		},
	} {
		t.Run(table, func(t *testing.T) {
			tb := newTable(t)
			due(tb, "0 s")
			tb.one()
			begin(tb)
			tb.LooksAreSlow(-time.Second, time.Hour)
			tb.reserve(5)
			tb.wantLease(time.Hour)
			tb.exec(`UPDATE notifyworker.` + table + ` SET lease_expires_at = clock_timestamp() - interval '15 s'`)
			if r := tb.reserve(5); r.NextLease >= 0 {
				t.Errorf("the next lease ends in %s: the test has not shown what it should", r.NextLease)
			}
			tb.LooksAreSlow(-time.Second, time.Hour)
			tb.wantLease(-15 * time.Second)
		})
	}
}

// The look after the barrier asks for all leases, or leaves that to a look in between, when it is brief and finds a job.
func TestTheLookBeforeAWorkerSleepsTellsOfEveryLease(t *testing.T) {
	for _, brief := range []bool{false, true} {
		tb := newTable(t)
		due(tb, "0 s")
		tb.one()
		tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() + interval '1 hour'`)
		tb.LooksAreSlow(-time.Second, time.Hour)
		if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if !brief {
			if r := tb.reserve(5); r.NextLease < 59*time.Minute {
				t.Errorf("the next lease ends in %s, want an hour", r.NextLease)
			}
			continue
		}
		due(tb, "0 s")
		r := tb.reserveBriefly(5)
		if len(r.Jobs) != 1 || !r.Brief || r.LookBetween.IsZero() {
			t.Errorf("got %+v, want a job, and a look in between to come", r)
		}
		tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = clock_timestamp() + interval '1 hour'`)
		tb.LooksAreSlow(-time.Second, time.Hour)
		tb.reserve(5)
		tb.wantLease(time.Hour)
	}
}

// Near looks come again soon, and one after the barrier tells of every lease.
func TestANearLookTellsOnlyOfALeaseThatEndsSoon(t *testing.T) {
	for table, begin := range map[string]func(table){
		"jobs":      func(tb table) { due(tb, "0 s"); tb.one() },
		"refreshes": func(tb table) { tb.refreshing(1, "1 hour") },
	} {
		t.Run(table, func(t *testing.T) {
			tb := newTable(t)
			conn := tb.conn()
			told := func(from string) (in *float64) {
				t.Helper()
				if err := conn.QueryRow(t.Context(), "SELECT lease_ms FROM notifyworker.next_due("+from+")").Scan(&in); err != nil {
					t.Fatal(err)
				}
				return in
			}
			begin(tb)
			tb.exec(`UPDATE notifyworker.` + table + ` SET lease_expires_at = clock_timestamp() + interval '1 hour'`)
			if in := told(`clock_timestamp() + interval '4 s'`); in != nil {
				t.Errorf("a near look tells of a lease that ends in %v ms", *in)
			}
			for _, from := range []string{`'-infinity'`, `clock_timestamp() - interval '2 s'`} {
				if in := told(from); in == nil || *in < 3_000_000 {
					t.Errorf("from %s the next lease ends in %v, want an hour", from, in)
				}
			}
			tb.exec(`UPDATE notifyworker.` + table + ` SET lease_expires_at = clock_timestamp() + interval '100 ms'`)
			if in := told(`(SELECT lease_expires_at - interval '100 ms' FROM notifyworker.` + table + `)`); in == nil || *in > 100 {
				t.Errorf("the next lease ends in %v, want 100 ms at most", in)
			}
		})
	}
}
