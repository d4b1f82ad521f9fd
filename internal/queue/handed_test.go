package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// handedPayload is what a commit says of a job that it has handed over.
func handedPayload(worker string, job int64) string {
	return fmt.Sprintf(`{"worker":"%s","job":%d}`, worker, job)
}

func TestADueJobIsHandedByItsCommitToAWorkerThatSleeps(t *testing.T) {
	for name, insert := range map[string]string{
		"a job":             `SELECT job_id FROM notifyworker.enqueue_job('t', '{"n": 1}')`,
		"a price refresh":   `SELECT job_id FROM notifyworker.enqueue_price_refresh('c', '["a", 1, "1"]', trace_id => 'trace')`,
		"without ids":       `SELECT job_id FROM notifyworker.enqueue_price_refresh('c', '[]')`,
		"a whole catalog":   `SELECT job_id FROM notifyworker.enqueue_full_refresh('c')`,
		"a plain INSERT":    `INSERT INTO notifyworker.jobs (type, run_after) VALUES ('t', now() - interval '1 h') RETURNING id`,
		"tried before":      `INSERT INTO notifyworker.jobs (type, attempts) VALUES ('t', 7) RETURNING id`,
		"tried without end": `INSERT INTO notifyworker.jobs (type, attempts) VALUES ('t', 2147483647) RETURNING id`,
	} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t)
			ear := tb.listen()
			began := value[time.Time](tb, `SELECT clock_timestamp()`)
			id := value[int64](tb, insert)
			tb.runsFor(workerA, id)
			if got := ear.heard(); !slices.Equal(got, []string{handedPayload(workerA, id)}) {
				t.Errorf("heard %q", got)
			}
			if r := tb.reserve(1); len(r.Jobs) != 0 {
				t.Errorf("a look found %+v", r.Jobs)
			}
			h := tb.take(id)[0]
			if value[int32](tb, `SELECT notifyworker.handed_key($1)`, h.Token) != value[int32](tb, `SELECT (hands -> 'key')::integer FROM notifyworker.workers`) || h.Token[14] != '8' {
				t.Errorf("the token %s is not of the worker's session", h.Token)
			}
			if lease := h.LeaseUntil.Sub(h.StartedAt); h.StartedAt.Before(began) || lease != tb.Settings("").Lease || h.Lease <= 0 || h.Lease > lease {
				t.Errorf("began at %v, started at %v for %v, of which %v is left", began, h.StartedAt, lease, h.Lease)
			}
			// A look would have given the same, under a token of another kind.
			tb.exec(`UPDATE notifyworker.jobs SET status = 'PENDING', attempts = attempts - 1, lock_token = NULL, lease_expires_at = NULL, worker_id = NULL`)
			if name == "tried without end" {
				tb.exec(`UPDATE notifyworker.jobs SET attempts = attempts + 1`)
			}
			looked := tb.one()
			if looked.LeaseUntil.Sub(looked.StartedAt) != h.LeaseUntil.Sub(h.StartedAt) || looked.Token[14] != '4' {
				t.Errorf("a look gave %+v", looked)
			}
			looked.Token, looked.StartedAt, looked.LeaseUntil = h.Token, h.StartedAt, h.LeaseUntil
			if got, want := fmt.Sprintf("%+v", h.Job), fmt.Sprintf("%+v", looked); got != want {
				t.Errorf("took %s, a look gave %s", got, want)
			}
		})
	}
}

func TestAJobIsHandedOverUnderTheLeaseOfItsType(t *testing.T) {
	tb := newHandedTable(t, func(c *queue.Config) {
		c.Types = map[string]queue.TypeSettings{"": {Lease: 20 * time.Second}, "slow": {Lease: time.Hour}}
	})
	for kind, want := range map[string]time.Duration{"slow": time.Hour, "t": 20 * time.Second} {
		if h := tb.take(tb.handed(kind))[0]; h.LeaseUntil.Sub(h.StartedAt) != want {
			t.Errorf("%s: until %v from %v, want %v", kind, h.LeaseUntil, h.StartedAt, want)
		}
	}
}

func TestATransactionHandsOverOneJob(t *testing.T) {
	tb := newHandedTable(t)
	ear, client := tb.listen(), tb.conn()
	for round := range 2 { // on one session: the next transaction hands one over again
		if _, err := client.Exec(t.Context(), `BEGIN; SELECT notifyworker.enqueue_job('t'), notifyworker.enqueue_job('t'), notifyworker.enqueue_job('t'); COMMIT`); err != nil {
			t.Fatal(err)
		}
		if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE worker_id = $1`, workerA); n != round+1 {
			t.Errorf("%d jobs were handed over, want %d", n, round+1)
		}
		handed := 0
		got := ear.heard()
		for _, p := range got {
			if strings.HasPrefix(p, `{"worker":`) {
				handed++
			}
		}
		if handed != 1 || len(got) != 2 { // what is announced twice in a transaction is notified once
			t.Errorf("heard %q", got)
		}
	}
}

func TestAJobThatIsRolledBackIsHandedToNobody(t *testing.T) {
	tb := newHandedTable(t)
	ear := tb.listen()
	// The deferred triggers run early, so the first one is handed over before it is undone.
	tb.exec(`BEGIN; SET CONSTRAINTS ALL IMMEDIATE; SELECT notifyworker.enqueue_job('undone'); ROLLBACK`)
	tb.exec(`BEGIN; SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT s; SELECT notifyworker.enqueue_job('undone'); ROLLBACK TO s; SELECT notifyworker.enqueue_job('kept'); COMMIT`)
	kept := value[int64](tb, `SELECT id FROM notifyworker.jobs`)
	tb.runsFor(workerA, kept)
	if got := ear.heard(); !slices.Equal(got, []string{handedPayload(workerA, kept)}) {
		t.Errorf("heard %q", got)
	}
}

// A worker has eight keys of "handing", and each commit takes one. With all of them taken, it hands nothing over, and says so.
func TestOnlySoManyCommitsAtOnceHandJobsToAWorker(t *testing.T) {
	tb := newHandedTable(t)
	const keys = `SELECT (hands -> 'key')::integer & ~7 FROM notifyworker.workers`
	client, err := tb.conn().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Exec(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE; SELECT notifyworker.enqueue_job('open')`); err != nil {
		t.Fatal(err)
	}
	held := `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1853292550 AND objid::bigint - (` + keys + `) BETWEEN 0 AND 7
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	if n := value[int](tb, held); n != 1 {
		t.Errorf("the open commit holds %d keys, want 1", n)
	}
	others, err := tb.conn().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := others.Exec(t.Context(), `SELECT pg_try_advisory_xact_lock(1853292550, (`+keys+`) + g) FROM generate_series(0, 7) g`); err != nil {
		t.Fatal(err)
	}
	if n := value[int](tb, held); n != 8 {
		t.Errorf("%d keys are held, want 8", n)
	}
	ear := tb.listen()
	if got := tb.status(value[int64](tb, `SELECT job_id FROM notifyworker.enqueue_job('ninth')`)); got != "PENDING" {
		t.Errorf("it is %s", got)
	}
	if got := ear.heard(); !slices.Equal(got, []string{listen.ManyCommits}) {
		t.Errorf("heard %q", got)
	}
	for _, tx := range []pgx.Tx{client, others} {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tb.handed("t")
}

func TestUnderVariantCTEJobsAreHandedOverWithAllThatWasMergedInOneTransaction(t *testing.T) {
	tb := newHandedTableIn(t, pgtest.DB(t, pgtest.Variant("cte")))
	tb.exec(`BEGIN; SELECT notifyworker.enqueue_price_refresh('c', '["a"]'); SELECT notifyworker.enqueue_price_refresh('c', '["b"]'); COMMIT`)
	h := tb.take(value[int64](tb, `SELECT id FROM notifyworker.jobs`))[0]
	if got := string(h.Config); got != `{"catalogId": "c", "productIds": ["a", "b"]}` || h.ProductCount != 2 {
		t.Errorf("took %s", got)
	}
	if id := tb.enqueue("c", `["c"]`); id == h.ID {
		t.Error("ids were merged into the job that runs")
	} else {
		tb.take(id)
	}
}
