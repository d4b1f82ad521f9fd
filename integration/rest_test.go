package integration

import (
	"fmt"
	"strings"
	"testing"

	"notifyworker/internal/queue"
)

// wantJobs reserves job after job, and says whose each is: ids, operated_by, trace, attempt, attempt limit.
func (tb *table) wantJobs(want string) {
	tb.t.Helper()
	var got []string
	for range 5 {
		tb.due()
		js := tb.reserve(1)
		if len(js) == 0 {
			break
		}
		got = append(got, one[string](tb, `SELECT concat_ws(' ', product_count, coalesce(left(operated_by::text, 8), 'nobody'), coalesce(trace_id, 'no trace'), attempts, 'of', max_attempts)
			FROM notifyworker.jobs WHERE id = $1`, js[0].ID))
		tb.complete(js[0])
	}
	if s := strings.Join(got, ", "); s != want {
		tb.t.Errorf("got %s, want %s", s, want)
	}
}

// What one job does not take of one call goes to jobs that are asked for by the same one.
func TestWhatGoesToASuccessorKeepsWhoAskedAndItsAttempts(t *testing.T) {
	const list = `(SELECT jsonb_agg(g) FROM generate_series(1, %d) g)`
	add := func(ids, attempts int) string {
		return fmt.Sprintf(`SELECT notifyworker.add_price_refresh('`+queue.DefaultTenant+`', 'c', `+list+`, false, '`+otherTenant+`', 'tr', '-infinity', NULL, %d, 5)`, ids, attempts)
	}
	for name, c := range map[string]struct {
		do    []string
		bound int
		want  string
	}{
		"more ids than an addition has": {
			[]string{add(25_000, 0)},
			12_000,
			"12000 11111111 tr 1 of 5, 12000 11111111 tr 1 of 5, 1000 11111111 tr 1 of 5",
		},
		"of a requeue, and one id is left": {
			[]string{add(10_001, 3)}, 10_000, "10000 11111111 tr 4 of 5, 1 11111111 tr 4 of 5",
		},
		"a job's own ids": {
			[]string{add(7, 3)}, 3, "3 11111111 tr 4 of 5, 3 11111111 tr 4 of 5, 1 11111111 tr 4 of 5",
		},
		"ids that joined after a requeue, in a successor": {
			[]string{
				`INSERT INTO notifyworker.jobs (type, successor, max_attempts, config) VALUES ('PRICE_REFRESH', true, 100, '{"catalogId": "c", "productIds": []}')`,
				`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, from_job_id, operated_by, trace_id, attempts, max_attempts)
					VALUES ('` + queue.DefaultTenant + `', 'c', '[1, 2, 3, 4, 5, 6, 7]', 99, '` + otherTenant + `', 'tr', 3, 5)`,
			},
			3, "3 11111111 tr 4 of 5, 3 11111111 tr 4 of 5, 1 11111111 tr 4 of 5",
		},
		"marked ones": {
			[]string{
				`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, marked, from_job_id, operated_by, trace_id, attempts, max_attempts)
					VALUES ('` + queue.DefaultTenant + `', 'c', '[1, 2, 3, 4, 5, 6, 7]', true, 99, '` + otherTenant + `', 'tr', 3, 5)`,
			},
			3, "3 11111111 tr 4 of 5, 3 11111111 tr 4 of 5, 1 11111111 tr 4 of 5",
		},
		// A client's ids among them have had no attempt, and so the jobs that take them begin anew.
		"ids of a requeue and a client's, in a successor": {
			[]string{
				`INSERT INTO notifyworker.jobs (type, successor, max_attempts, config) VALUES ('PRICE_REFRESH', true, 100, '{"catalogId": "c", "productIds": []}')`,
				`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, from_job_id, attempts, max_attempts)
					VALUES ('` + queue.DefaultTenant + `', 'c', '[1]', 99, 3, 5), ('` + queue.DefaultTenant + `', 'c', '[2, 3]', NULL, 0, 5)`,
			},
			2, "2 nobody no trace 1 of 5, 1 nobody no trace 1 of 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, queue.Config{MaxIDs: c.bound})
			for _, sql := range c.do {
				tb.exec(sql)
			}
			tb.wantJobs(c.want)
		})
	}
}
