package faults

import (
	"net/url"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// asApp returns the rig's URL for a role without special rights, which limits and settings can be put on.
func (r *rig) asApp() string {
	r.t.Helper()
	r.exec(`DO $$ BEGIN
		CREATE ROLE app LOGIN PASSWORD 'app';
		GRANT USAGE ON SCHEMA notifyworker, ledger TO app;
		GRANT ALL ON ALL TABLES IN SCHEMA notifyworker, ledger TO app;
		GRANT ALL ON ALL SEQUENCES IN SCHEMA notifyworker TO app;
	END $$`)
	u, err := url.Parse(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	u.User = url.UserPassword("app", "app")
	return u.String()
}

// listening waits until a launched worker is ready.
func (p *process) listening() *process {
	p.t.Helper()
	p.await(0, startup, "that it listens", says("listening for notifications"))
	p.await(0, startup, "that it has started", says("worker started"))
	return p
}

func TestWithoutAFreeConnectionTheWorkerWaitsAndGoesOn(t *testing.T) {
	r := onServer(t, embedded.Config{})
	p := r.launch(r.asApp()).listening()
	r.pickUp(10*time.Second, "c", "before")
	r.exec("ALTER ROLE app CONNECTION LIMIT 0")
	r.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	r.enqueue("c", "during")
	p.await(0, 15*time.Second, "that it has no connection", says("the database does not answer as it should"))
	p.notReady(5*time.Second, "database_")
	time.Sleep(max(4*time.Second, *soak/60)) // the fault itself
	r.exec("ALTER ROLE app CONNECTION LIMIT -1")
	took := r.until(20*time.Second, "the ids are recomputed", "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = 'during')")
	atMost(t, "from a free connection to a recomputation", took, 3*time.Second)
	p.isReady(10 * time.Second)
	r.settle(10 * time.Second)
	r.judge(nil)
}

func TestTwoConnectionsAreEnoughToWork(t *testing.T) {
	r := onServer(t, embedded.Config{})
	url := r.asApp()
	r.exec("ALTER ROLE app CONNECTION LIMIT 3") // the listener's, and two
	p := r.launch(url, "--lease=2s")
	p.await(0, startup, "that it has started", says("worker started"))
	load := r.clients(3, 6, 20*time.Millisecond)
	time.Sleep(long(4 * time.Second))
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
}

// B36: time-outs that somebody has put on the role don't cut the worker's own statements.
func TestB36TimeOutsOfTheRoleDoNotCutTheWorkersStatements(t *testing.T) {
	r := onServer(t, embedded.Config{})
	url := r.asApp()
	for _, set := range []string{
		"statement_timeout = '20ms'", "lock_timeout = '10ms'", "idle_in_transaction_session_timeout = '20ms'",
		"idle_session_timeout = '300ms'", "default_transaction_isolation = 'serializable'", "TimeZone = 'Asia/Kolkata'",
	} {
		r.exec("ALTER ROLE app SET " + set)
	}
	p := r.launch(url, "--chunk=2").listening()
	r.exec("UPDATE ledger.pace SET seconds = 0.1")
	load := r.clients(3, 6, 20*time.Millisecond)
	time.Sleep(long(4 * time.Second))
	load.stop()
	r.settle(60 * time.Second)
	v := r.judge(load)
	if v.Enqueued == 0 {
		t.Error("nothing was enqueued")
	}
	if n := p.log.count(0, says("the database does not answer as it should")); n > 0 {
		blame(t, "the worker had trouble with its own statements, %d times", n)
	}
}
