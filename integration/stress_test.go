package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"golang.org/x/sync/errgroup"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the random run, as a failed one prints it; 0 draws one by lot")
	soakFlag = flag.Duration("soak", 0, "how long the random run takes; 0 means some seconds")
)

const (
	suppliers = 10 // clients that enqueue
	handlers  = 4  // sessions of workers
	operators = 2  // people with psql: cancel, replay
	hot       = 3  // catalogs that everybody enqueues; others are rare
	lease     = time.Second
)

// stress is a random run: what everybody does is drawn from the seed, when it happens is the machine's.
type stress struct {
	*table
	*ledger
	seed uint64
	stop atomic.Bool // suppliers and operators end
	dry  atomic.Bool // workers end when nothing is left, and complete all until then
}

// TestNothingIsLostAndNobodyIsBlockedInARandomRun compares, at its end, each id that was committed with each id that was
// completed.
func TestNothingIsLostAndNobodyIsBlockedInARandomRun(t *testing.T) {
	length := 8 * time.Second
	if testing.Short() {
		length = 3 * time.Second
	}
	if *soakFlag > 0 {
		length = *soakFlag
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("the seed is %d: go test ./integration -run %s -seed %d", seed, t.Name(), seed)
	cfg := queue.Config{Types: map[string]queue.TypeSettings{"": {Lease: lease}, queue.TypePriceRefresh: {Lease: lease}}}
	bounded := seed%3 == 0
	if bounded {
		cfg.MaxIDs = 40 // so that jobs leave ids for the next one
	}
	s := &stress{table: newTable(t, cfg, pgtest.Variant("advisory")), ledger: newLedger(), seed: seed}
	s.play(length)
	s.verdict(!bounded)
}

func (s *stress) play(length time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), length+3*time.Minute)
	defer cancel()
	var clients, workers, watch errgroup.Group
	for i := range suppliers {
		clients.Go(func() error { return s.supplier(ctx, i) })
	}
	for i := range operators {
		clients.Go(func() error { return s.operator(ctx, i) })
	}
	for i := range handlers {
		workers.Go(func() error { return s.handler(ctx, i) })
	}
	watching, stopWatching := context.WithCancel(ctx)
	watch.Go(func() error { return s.watch(watching) })
	end := time.After(length)
	select {
	case <-end:
	case <-ctx.Done():
	}
	s.stop.Store(true)
	if err := clients.Wait(); err != nil {
		s.t.Errorf("seed %d: a client: %v", s.seed, err)
	}
	stopWatching()
	if err := watch.Wait(); err != nil {
		s.t.Errorf("seed %d: %v", s.seed, err)
	}
	s.dry.Store(true)
	if err := workers.Wait(); err != nil {
		s.t.Errorf("seed %d: a worker: %v", s.seed, err)
	}
}

// left says whether anything waits, runs, or is a dead letter.
func (s *stress) left(ctx context.Context) (left bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING', 'FAILED'))
		OR EXISTS (SELECT FROM notifyworker.job_additions)`).Scan(&left)
	return left, err
}

func (s *stress) verdict(exact bool) {
	t := s.t
	t.Helper()
	if left, err := s.left(context.Background()); err != nil || left {
		t.Errorf("seed %d: something is left at the end: %v", s.seed, err)
	}
	for _, line := range s.compare() {
		t.Errorf("seed %d: %s", s.seed, line)
	}
	if exact {
		rows := one[int](s.table, `SELECT count(*) FROM notifyworker.jobs j LEFT JOIN notifyworker.jobs m ON m.id = (j.result ->> 'mergedIntoJobId')::bigint
			WHERE j.result ? 'mergedIntoJobId' AND j.status = 'COMPLETED' AND (m.config -> 'productIds' @> (j.config -> 'productIds')) IS NOT TRUE`)
		if rows != 0 {
			t.Errorf("seed %d: %d jobs say that they were merged into one that has not all of their ids", s.seed, rows)
		}
	}
	s.sound()
	if n := one[int](s.table, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("seed %d: %d deadlocks", s.seed, n)
	}
	s.db.NoServerErrors(t, "duplicate key value violates unique constraint \"jobs_price_refresh_pending_catalog_uq\"", "could not serialize access")
	t.Log(s.report())
}

// rng is the luck of one participant.
func (s *stress) rng(kind string, i int) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed, uint64(len(kind))<<32|uint64(i)))
}

// catalogOf draws a catalog. Some rare ones share a lock stripe with another.
func catalogOf(r *rand.Rand) string {
	if r.IntN(10) == 0 {
		return fmt.Sprintf("rare%d", r.IntN(200))
	}
	return fmt.Sprintf("hot%d", r.IntN(hot))
}
