package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// pickUp enqueues one id and returns how long its recomputation takes from then on.
func (r *rig) pickUp(within time.Duration, catalog, id string) time.Duration {
	r.t.Helper()
	r.enqueue(catalog, id)
	return r.until(within, "id "+id+" is recomputed", "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = $1)", id)
}

// accepts waits until the server takes connections again.
func (r *rig) accepts() {
	r.t.Helper()
	r.until(30*time.Second, "the server accepts connections", "SELECT true")
}

func TestTheServerRestartedUnderLoadLosesNothing(t *testing.T) {
	for _, mode := range []embedded.Mode{embedded.Fast, embedded.Immediate, embedded.Killed} {
		t.Run(string(mode), func(t *testing.T) {
			r := onServer(t, embedded.Config{Durable: true})
			workers := []*process{r.worker("--chunk=2"), r.worker("--chunk=2")}
			load := r.clients(4, 6, 10*time.Millisecond)
			for i := range times(3, 50) {
				time.Sleep(time.Duration(300+rand.IntN(700)) * time.Millisecond) // the fault itself: a random moment
				if err := r.server.Restart(context.Background(), mode); err != nil {
					t.Fatal(err)
				}
				r.accepts()
				atMost(t, "from the restart to a recomputation", r.pickUp(15*time.Second, "probe", fmt.Sprintf("probe-%d", i)), 5*time.Second)
			}
			load.stop()
			r.settle(60 * time.Second)
			r.judge(load)
			for _, p := range workers {
				if p.gone() {
					t.Errorf("%s has ended", p.name)
				}
			}
		})
	}
}

// B17: LISTEN never comes back after the server was refused or in recovery.
func TestB17AfterALongOutageWorkGoesOnWithoutARestart(t *testing.T) {
	r := onServer(t, embedded.Config{Durable: true})
	p := r.worker()
	r.pickUp(10*time.Second, "c", "before")
	files := p.files()
	if err := r.server.Halt(embedded.Fast); err != nil {
		t.Fatal(err)
	}
	p.await(0, 10*time.Second, "that the listening connection is lost", says("listening connection lost"))
	p.notReady(10*time.Second, "database_unreachable")
	outage := 7 * time.Second
	if *soak > 0 {
		outage = 90 * time.Second
	}
	time.Sleep(outage) // the fault itself
	mark := p.log.mark()
	if err := r.server.Relaunch(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.accepts()
	atMost(t, "from the server's return to a recomputation", r.pickUp(20*time.Second, "c", "after"), 3*time.Second)
	p.await(mark, 10*time.Second, "that it listens again", says("listening for notifications"))
	r.until(10*time.Second, "its row is there again", "SELECT count(*) = 1 FROM notifyworker.workers WHERE last_beat > now() - interval '20 s'")
	if now := p.files(); now > files+6+8 { // its pool may have grown
		t.Errorf("%d file descriptors before the outage, %d after", files, now)
	}
	atMost(t, "a recomputation once it listens", r.pickUp(5*time.Second, "c", "later"), time.Second)
}

func TestBackendsTerminatedUnderLoadLoseNothing(t *testing.T) {
	r := onDatabase(t)
	for range 2 {
		r.worker("--chunk=2", "--lease=2s")
	}
	load := r.clients(4, 6, 10*time.Millisecond)
	const victims = `SELECT count(pg_terminate_backend(pid)) > 0 FROM (SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name IN ('notifyworker', 'notifyworker listen') ORDER BY random() LIMIT $1) x`
	n := 0
	for end := time.Now().Add(long(8 * time.Second)); time.Now().Before(end); n++ {
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond) // the fault itself: a random moment
		limit := 1
		if n%10 == 9 {
			limit = 1000
		}
		ask[bool](r, victims, limit)
	}
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
	t.Logf("terminated backends %d times", n)
}

// A lock on the whole table, as of a careless ALTER TABLE (B36).
func TestB36ATableLockedForAWhileStopsNothingForLongerThanItself(t *testing.T) {
	r := onDatabase(t)
	p := r.worker("--lease=2s")
	r.pickUp(10*time.Second, "c", "before")
	sessions := func() int {
		return ask[int](r, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND application_name IN ('notifyworker', 'notifyworker listen')")
	}
	// A client is in the midst of an enqueue when the lock comes: its ids wait in the table's queue, too.
	tx, err := r.db.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // committed below
	if _, err := tx.Exec(context.Background(), "LOCK TABLE notifyworker.jobs IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "SELECT ledger.enqueue('c', '{during}')"); err != nil {
		t.Fatal(err)
	}
	held := 13 * time.Second // longer than any of the worker's time-outs
	if *soak > 0 {
		held = time.Minute
	}
	ask[bool](r, "SELECT pg_notify('notifyworker', '{}') IS NULL") // or who sleeps might ask nothing of the table meanwhile
	p.notReady(10*time.Second, "database_")
	most := 0
	for end := time.Now().Add(held); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		most = max(most, sessions())
	}
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	took := r.until(20*time.Second, "the ids are recomputed", "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = 'during')")
	atMost(t, "from the lock's release to a recomputation", took, time.Second)
	if limit := 6 + 8 + 1; most > limit {
		t.Errorf("the worker had %d sessions meanwhile, its pool and listener are %d", most, limit)
	}
	if p.log.count(0, says("the database does not answer as it should")) == 0 {
		t.Error("the worker did not say that the database doesn't answer")
	}
	p.isReady(5 * time.Second)
	r.settle(10 * time.Second)
	r.judge(nil)
}

// B38: a server that turns read-only, as a fail-over's loser does.
func TestB38AReadOnlyServerIsSaidAndWorkResumes(t *testing.T) {
	r := onServer(t, embedded.Config{})
	p := r.worker()
	r.pickUp(10*time.Second, "c", "before")
	r.exec("ALTER SYSTEM SET default_transaction_read_only = on")
	r.exec("SELECT pg_reload_conf()")
	e := p.await(0, 12*time.Second, "that the server is read-only", func(e entry) bool { return says("the database does not answer")(e) && e.text("advice") != "" })
	t.Logf("it says: %s: %s", e.text("error"), e.text("advice"))
	p.notReady(5*time.Second, "read_only")
	if *soak > 0 {
		time.Sleep(20 * time.Second)
	}
	mark := p.log.mark()
	r.exec("ALTER SYSTEM SET default_transaction_read_only = off")
	r.exec("SELECT pg_reload_conf()")
	r.until(5*time.Second, "the server is writable", "SELECT current_setting('default_transaction_read_only') = 'off'")
	atMost(t, "from the return of writes to a recomputation", r.pickUp(20*time.Second, "c", "after"), 3*time.Second)
	p.await(mark, 10*time.Second, "that the database answers again", says("the database answers again"))
	p.isReady(5 * time.Second)
	r.settle(10 * time.Second)
	r.judge(nil)
}
