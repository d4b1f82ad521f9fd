package integration

import (
	"context"
	"errors"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

const otherTenant = "11111111-1111-4111-8111-111111111111"

// variants runs a test under the default protocol and under the first generation's.
func variants(t *testing.T, f func(t *testing.T, tb *table)) {
	for _, v := range []string{"advisory", "cte"} {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			f(t, newTable(t, queue.Config{}, pgtest.Variant(v)))
		})
	}
}

func TestARunningJobThatGoesBackMergesIntoTheNewerOne(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		tb.enqueue("c", `["p1", "p2"]`)
		a := tb.reserveOne()
		b := tb.enqueue("c", `["p9", "p1"]`)
		if out := tb.requeue(a, queue.CauseRefused); out.Verdict != queue.Merged || out.MergedInto != b {
			t.Fatalf("got %+v, want merged into %d", out, b)
		}
		if tb.status(a.ID) != "COMPLETED" || tb.into(a.ID) != b {
			t.Errorf("the replaced job is %s, merged into %d", tb.status(a.ID), tb.into(a.ID))
		}
		j := tb.reserveOne()
		if got := tb.ids(b); j.ID != b || got != `["p9", "p1", "p2"]` {
			t.Errorf("job %d has %s", j.ID, got)
		}
	})
}

func TestAFullRefreshThatGoesBackMakesTheWaitingJobFull(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		for catalog, c := range map[string]struct{ returned, waiting, want string }{
			"a": {"full", "partial", "full"},
			"b": {"partial", "full", "full"},
			"c": {"partial", "partial", "partial"},
		} {
			ask := func(scope string) {
				if scope == "full" {
					tb.exec(`SELECT notifyworker.enqueue_full_refresh($1)`, catalog)
				} else {
					tb.enqueue(catalog, `["p1"]`)
				}
			}
			ask(c.returned)
			a := tb.reserveOne()
			ask(c.waiting)
			if out := tb.requeue(a, queue.CauseRefused); out.Verdict != queue.Merged {
				t.Fatalf("got %+v", out)
			}
			b := tb.reserveOne()
			full := one[bool](tb, `SELECT coalesce(config -> 'full' = 'true', false) FROM notifyworker.jobs WHERE id = $1`, b.ID)
			if full != (c.want == "full") || tb.into(a.ID) != b.ID {
				t.Errorf("a %s refresh that met a waiting %s one: full is %t; merged into %d, want %d", c.returned, c.waiting, full, tb.into(a.ID), b.ID)
			}
			tb.complete(b)
		}
	})
}

func TestARunningJobThatGoesBackWithoutACompetitorWaitsAgain(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		a := tb.enqueue("c", `["p1"]`)
		if out := tb.requeue(tb.reserveOne(), queue.CauseFailed); out.Verdict != queue.Requeued {
			t.Fatalf("got %+v", out)
		}
		if j := tb.reserveOne(); j.ID != a || j.Attempt != 2 || tb.ids(a) != `["p1"]` {
			t.Errorf("got job %d, attempt %d, with %s", j.ID, j.Attempt, tb.ids(a))
		}
	})
}

func TestARunningJobThatGoesBackLeavesOtherCatalogsAndTenantsAlone(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		tb.exec(`INSERT INTO notifyworker.tenants VALUES ($1, 'other')`, otherTenant)
		tb.enqueue("c", `["p1"]`)
		a := tb.reserveOne()
		d := tb.enqueue("d", `["q"]`)
		same := one[int64](tb, `SELECT job_id FROM notifyworker.enqueue_price_refresh('c', '["r"]', tenant_id => $1)`, otherTenant)
		const untouched = `SELECT string_agg(j::text, ';' ORDER BY id) FROM notifyworker.jobs j WHERE id IN ($1, $2)`
		before := one[string](tb, untouched, d, same)
		if out := tb.requeue(a, queue.CauseRefused); out.Verdict != queue.Requeued {
			t.Fatalf("got %+v", out)
		}
		if after := one[string](tb, untouched, d, same); after != before {
			t.Errorf("another catalog's or tenant's job changed\nfrom %s\nto   %s", before, after)
		}
	})
}

func TestALostReservationWritesNothing(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		tb.enqueue("c", `["p1"]`)
		lost := tb.reserveOne()
		tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - interval '1 s'`)
		if r, err := tb.Rescue(t.Context(), 10); err != nil || len(r) != 1 {
			t.Fatalf("rescue: %v, %v", r, err)
		}
		tb.due()
		tb.reserveOne() // by somebody else
		tb.enqueue("c", `["p2"]`)
		const all = `SELECT (SELECT string_agg(j::text, ';' ORDER BY id) FROM notifyworker.jobs j) || (SELECT count(*) FROM notifyworker.job_additions)`
		before := one[string](tb, all)
		for _, cause := range []queue.Cause{queue.CauseRefused, queue.CauseFailed, queue.CausePermanent, queue.CauseReleased} {
			if out := tb.requeue(lost, cause); out.Verdict != queue.Gone {
				t.Errorf("%s: got %+v", cause, out)
			}
		}
		done, err := tb.Complete(t.Context(), []queue.Completion{{ID: lost.ID, Token: lost.Token}})
		if err != nil || len(done.Lost) != 1 {
			t.Errorf("complete: %+v, %v", done, err)
		}
		if err := tb.Progress(t.Context(), lost.ID, lost.Token, []byte(`{"n": 1}`)); !errors.Is(err, queue.ErrLost) {
			t.Errorf("progress: %v", err)
		}
		if gone, _, err := tb.Extend(t.Context(), []queue.Held{{ID: lost.ID, Token: lost.Token}}); err != nil || len(gone) != 1 {
			t.Errorf("extend: %v, %v", gone, err)
		}
		if after := one[string](tb, all); after != before {
			t.Errorf("changed\nfrom %s\nto   %s", before, after)
		}
	})
}

func TestEmptyArraysStayEmptyArrays(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		a := tb.enqueue("c", `[]`)
		j := tb.reserveOne()
		b := tb.enqueue("c", `[]`)
		tb.enqueue("c", `[]`)
		if out := tb.requeue(j, queue.CauseRefused); out.Verdict != queue.Merged {
			t.Fatalf("got %+v", out)
		}
		j = tb.reserveOne()
		if j.ID != b || tb.ids(a)+tb.ids(b) != `[][]` {
			t.Errorf("jobs have %s and %s", tb.ids(a), tb.ids(b))
		}
		if out := tb.requeue(j, queue.CauseRefused); out.Verdict != queue.Requeued {
			t.Fatalf("got %+v", out)
		}
		tb.enqueue("c", `["p"]`)
		if j = tb.reserveOne(); tb.ids(j.ID) != `["p"]` {
			t.Errorf("got %s", tb.ids(j.ID))
		}
	})
}

func TestIDsKeepTheirOrderAndTheirJSONType(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		tb.enqueue("c", `["b", 1, 9007199254740993]`)
		a := tb.reserveOne()
		b := tb.enqueue("c", `["1", 9007199254740992, "a"]`)
		tb.enqueue("c", `[1, "b", "é\"\\", 1e30, "a", 0.1]`)
		tb.requeue(a, queue.CauseRefused)
		tb.complete(tb.reserveOne())
		want := `["1", 9007199254740992, "a", 1, "b", "é\"\\", 1000000000000000000000000000000, 0.1, 9007199254740993]`
		if got := tb.ids(b); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestTheAttemptLimitEndsAJobWithItsIDs(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		id := one[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('PRICE_REFRESH', '{"catalogId": "c", "productIds": ["p1", 7]}', max_attempts => 3)`)
		var last queue.Returned
		for attempt := 1; attempt <= 3; attempt++ {
			j := tb.reserveOne()
			if j.Attempt != attempt {
				t.Fatalf("attempt %d says that it is %d", attempt, j.Attempt)
			}
			last = tb.requeue(j, queue.CauseFailed)
		}
		if last.Verdict != queue.Dead || tb.status(id) != "FAILED" || tb.ids(id) != `["p1", 7]` {
			t.Errorf("got %+v, %s with %s", last, tb.status(id), tb.ids(id))
		}
	})
}

func TestTenantsOfOneCatalogNameDoNotMix(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		tb.exec(`INSERT INTO notifyworker.tenants VALUES ($1, 'other')`, otherTenant)
		enqueue := func(tenant, ids string) {
			tb.exec(`SELECT notifyworker.enqueue_price_refresh('c', $1::text::jsonb, tenant_id => $2)`, ids, tenant)
		}
		for _, ids := range []string{`["a1"]`, `["a2"]`} {
			enqueue(queue.DefaultTenant, ids)
			enqueue(otherTenant, `["b1"]`)
		}
		jobs := tb.reserve(10)
		if len(jobs) != 2 {
			t.Fatalf("%d jobs for two tenants", len(jobs))
		}
		enqueue(otherTenant, `["b2"]`)
		for _, j := range jobs {
			want := map[string]string{queue.DefaultTenant: `["a1", "a2"]`, otherTenant: `["b1"]`}[j.TenantID]
			if got := tb.ids(j.ID); got != want {
				t.Errorf("tenant %s: got %s, want %s", j.TenantID, got, want)
			}
			verdict := map[string]queue.Verdict{queue.DefaultTenant: queue.Requeued, otherTenant: queue.Merged}[j.TenantID]
			if out := tb.requeue(j, queue.CauseRefused); out.Verdict != verdict {
				t.Errorf("tenant %s: got %+v", j.TenantID, out)
			}
		}
	})
}

func TestAPlainUpdateBackToPendingMeetsTheIndex(t *testing.T) {
	variants(t, func(t *testing.T, tb *table) {
		a := tb.enqueue("c", `["p1"]`)
		tb.reserveOne()
		tb.enqueue("c", `["p2"]`)
		_, err := tb.pool.Exec(context.Background(), `UPDATE notifyworker.jobs
			SET status = 'PENDING', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL WHERE id = $1`, a)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "23505" || pg.ConstraintName != "jobs_price_refresh_pending_catalog_uq" {
			t.Fatalf("got %v", err)
		}
		if s := tb.status(a); s != "RUNNING" {
			t.Errorf("the job is %s", s)
		}
	})
}
