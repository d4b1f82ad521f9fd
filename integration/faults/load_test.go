package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// load are clients that enqueue ids, each once, whatever becomes of their connections.
type load struct {
	r      *rig
	db     *pgxpool.Pool
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	acked   []string // ids whose commit was acknowledged
	failed  int      // transactions that were not
	slowest time.Duration
}

// clients start to enqueue over n connections and some catalogs, pausing about so long after each transaction. Eight ids in a row
// are variants of one article, so that refreshes stand in one another's way and jobs are refused, requeued and merged.
func (r *rig) clients(n, catalogs int, pause time.Duration) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{r: r, db: r.db, cancel: cancel}
	for c := range n {
		l.wg.Go(func() { l.client(ctx, c, catalogs, pause) })
	}
	r.t.Cleanup(func() { l.stop() })
	return l
}

func (l *load) client(ctx context.Context, number, catalogs int, pause time.Duration) {
	for seq := 0; ctx.Err() == nil; {
		var ids []string
		for range 1 + rand.IntN(3) {
			ids = append(ids, fmt.Sprintf("%d%c", (number+1)*10_000_000+seq/8, 'A'+seq%8))
			seq++
		}
		began := time.Now()
		// A stop lets the statement end: one that is broken off may commit later, when all has been counted.
		sctx, done := context.WithTimeout(context.WithoutCancel(ctx), 2*statement)
		_, err := l.db.Exec(sctx, "SELECT ledger.enqueue($1, $2)", fmt.Sprintf("catalog %d", rand.IntN(catalogs)), ids)
		done()
		l.note(ids, time.Since(began), err)
		wait := time.Duration(rand.Int64N(int64(2*pause) + 1))
		if err != nil {
			wait += 20 * time.Millisecond
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

func (l *load) note(ids []string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed++
		return
	}
	l.acked = append(l.acked, ids...)
	l.slowest = max(l.slowest, took)
}

// stop ends the clients and waits for them. It may be called again.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// verdict is what the ledger says at the end.
type verdict struct {
	Enqueued, Recomputed, Twice, Merged, Requeued int
	Slowest                                       time.Duration // from enqueue to recomputation
}

// settle waits until all that was enqueued is recomputed and nothing is under way, no statement of a client's either: one that was
// given up may commit yet.
func (r *rig) settle(within time.Duration) {
	r.t.Helper()
	r.until(within, "all is recomputed", `SELECT NOT EXISTS (SELECT FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING'))
		AND NOT EXISTS (SELECT FROM notifyworker.job_additions) AND NOT EXISTS (SELECT FROM notifyworker.refreshes WHERE status = 'ACTIVE')
		AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'test' AND state = 'active' AND pid <> pg_backend_pid())`)
}

// judge compares what was enqueued with what was recomputed. By a SQL function of the same database, each id is recomputed
// exactly as often as it was enqueued, since a chunk and its progress are one commit.
func (r *rig) judge(l *load) verdict {
	r.t.Helper()
	var v verdict
	var slowest float64
	var lost, foreign, failed, unmarked int
	err := r.db.QueryRow(context.Background(), `SELECT
		(SELECT count(*) FROM ledger.enqueued), (SELECT count(*) FROM ledger.recomputed),
		(SELECT count(*) FROM ledger.enqueued e WHERE NOT EXISTS (SELECT FROM ledger.recomputed r WHERE r.product = e.product AND r.catalog = e.catalog)),
		(SELECT count(*) FROM ledger.recomputed r WHERE NOT EXISTS (SELECT FROM ledger.enqueued e WHERE r.product = e.product AND r.catalog = e.catalog)),
		(SELECT count(*) FROM (SELECT FROM ledger.recomputed GROUP BY product HAVING count(*) > 1) x),
		(SELECT count(*) FROM notifyworker.jobs WHERE type = 'PRICE_REFRESH' AND status = 'FAILED'),
		(SELECT count(*) FROM notifyworker.jobs WHERE result ? 'mergedIntoJobId'),
		(SELECT count(*) FROM notifyworker.jobs WHERE attempts > 1),
		(SELECT count(*) FROM notifyworker.jobs j WHERE result ? 'mergedIntoJobId'
		    AND NOT EXISTS (SELECT FROM notifyworker.jobs o WHERE o.id = (j.result ->> 'mergedIntoJobId')::bigint)),
		(SELECT coalesce(max(extract(epoch FROM r.at - e.at)), 0) FROM ledger.enqueued e JOIN ledger.recomputed r USING (product))`).
		Scan(&v.Enqueued, &v.Recomputed, &lost, &foreign, &v.Twice, &failed, &v.Merged, &v.Requeued, &unmarked, &slowest)
	if err != nil {
		r.t.Fatalf("read the ledger: %v", err)
	}
	v.Slowest = time.Duration(slowest * float64(time.Second))
	for what, n := range map[string]int{
		"ids enqueued and never recomputed": lost, "ids recomputed that nobody has enqueued": foreign,
		"ids recomputed more than once": v.Twice, "price refreshes FAILED": failed, "jobs merged into one that does not exist": unmarked,
	} {
		if n > 0 {
			r.t.Errorf("%d %s", n, what)
		}
	}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := ask[int](r, "SELECT count(*)::int FROM unnest($1::text[]) a(product) WHERE NOT EXISTS (SELECT FROM ledger.enqueued e WHERE e.product = a.product)", l.acked); n > 0 {
			r.t.Errorf("%d ids are lost whose commit was acknowledged", n)
		}
		r.t.Logf("%d ids acknowledged, %d transactions failed, slowest enqueue %v", len(l.acked), l.failed, l.slowest.Round(time.Millisecond))
	}
	r.t.Logf("ledger: %d ids enqueued, %d recomputed, none lost; %d jobs merged, %d with several attempts; slowest id %v",
		v.Enqueued, v.Recomputed, v.Merged, v.Requeued, v.Slowest.Round(time.Millisecond))
	for _, p := range r.started {
		if n := p.metric("notifyworker_additions_repaired_total"); n > 0 {
			r.t.Errorf("%s repaired the invariant of additions %v times", p.name, n)
		}
	}
	if r.server != nil {
		if n := r.serverSaid("duplicate key value", "deadlock detected", "current transaction is aborted"); n > 0 {
			r.t.Errorf("the server logged %d unique violations, deadlocks or aborted transactions", n)
		}
	} else {
		// What faults are allowed to say: among it the fence, by which a refresh that was taken over says so to its old holder.
		r.shared.NoServerErrors(r.t, "is lost: it is not active", "is past its first", "terminating connection", "canceling statement", "canceling autovacuum", "could not", "connection to client lost", "unexpected EOF")
	}
	return v
}
