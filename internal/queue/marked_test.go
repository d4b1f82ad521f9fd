package queue_test

import (
	"testing"
	"time"
)

// Of a queue that is always full, each look takes all that it may of the jobs that wait.
func TestAMarkedAdditionWaitsForNoBacklog(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t') FROM generate_series(1, 20)`)
	for range 3 {
		tb.exec(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.enqueue_price_refresh(gen_random_uuid()::text, '["p"]'); COMMIT`)
	}
	tb.exec(`UPDATE notifyworker.job_additions SET created_at = created_at - interval '20 ms'`)
	marked := 0
	for _, j := range tb.reserve(4).Jobs {
		if j.CatalogID != "" {
			marked++
		}
	}
	if marked != 2 {
		t.Errorf("of 4 jobs %d are of marked additions, want half: one in each look else never has its turn, or the others don't", marked)
	}
	if r := tb.reserve(1); len(r.Jobs) != 1 || r.Jobs[0].CatalogID == "" {
		t.Errorf("the one that is left has waited for longer than %v: got %+v", 20*time.Millisecond, r.Jobs)
	}
	if r := tb.reserve(1); len(r.Jobs) != 1 || r.Jobs[0].Type != "t" {
		t.Errorf("then the others: got %+v", r.Jobs)
	}
}
