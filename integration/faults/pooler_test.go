package faults

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// missing ends a test for want of a program that a newcomer may lack and no package of ours brings: in CI it fails.
func missing(t testing.TB, program, pkg string, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("the test needs %s: apt-get install %s (%v)", program, pkg, err)
	}
	t.Skipf("NOT RUN, %s is missing: apt-get install %s (%v)", program, pkg, err)
}

// pgbouncer is a pooler in transaction mode before the rig's server; it returns the URL of the database behind it.
func (r *rig) pgbouncer() string {
	r.t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(path); err != nil {
		missing(r.t, "PgBouncer", "pgbouncer", err)
	}
	for try := 0; ; try++ {
		// It has no "any port": one that is free now may be somebody's in a moment.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		log := r.pgbouncerAt(path, port)
		if _, ok := log.await(0, patient(10*time.Second), says("process up")); ok {
			u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/postgres", RawQuery: "sslmode=disable"}
			return u.String()
		}
		if try == 4 || log.count(0, says("ddress already in use")) == 0 {
			r.t.Fatalf("PgBouncer does not start: %s", log.tail(10))
		}
	}
}

// pgbouncerAt starts one at a port, until the test ends. Its log ends early when it can't have the port.
func (r *rig) pgbouncerAt(path string, port int) *journal {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "pgbouncer-")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { os.RemoveAll(dir) })
	ini := fmt.Sprintf(`[databases]
postgres = host=127.0.0.1 port=%d user=postgres password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 200
`, r.server.Port(), r.server.Password(), port)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(path, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // it refuses to run as root
		nobody, err := user.Lookup("nobody")
		if err != nil {
			r.t.Fatal(err)
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chmod(dir, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	log := newJournal()
	out, err := cmd.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		log.read(out)
	}()
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("PgBouncer said:\n%s", log.tail(20))
		}
	})
	return log
}

func TestB49PgBouncerBeforeThePoolAndALineOfItsOwnForTheListener(t *testing.T) {
	r := onServer(t, embedded.Config{})
	pooled := r.pgbouncer()
	args := []string{"--listen-url=" + r.url, "--chunk=2", "--handler=work=sql:ledger.work"}
	p := r.launch(pooled, args...).listening()
	r.launch(pooled, args...).listening() // two, so that one meets what the other has prepared
	load := r.clients(4, 6, 10*time.Millisecond)
	r.exec(`SELECT notifyworker.enqueue_job('work', '{"sleep": 0.1}') FROM generate_series(1, 20)`)
	time.Sleep(long(6 * time.Second))
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE type = 'work' AND status = 'COMPLETED'"); n != 20 {
		t.Errorf("%d of 20 other jobs are done", n)
	}
	p.log.count(0, func(e entry) bool {
		if e.text("level") == "warn" || e.text("level") == "error" {
			blame(t, "the worker had trouble: %v", e)
		}
		return false
	})
	atMost(t, "a recomputation", r.pickUp(5*time.Second, "c", "p"), time.Second)
}

func TestB49PgBouncerBeforeTheListenerIsDetectedAndSaid(t *testing.T) {
	r := onServer(t, embedded.Config{})
	p := r.launch(r.pgbouncer())
	p.await(0, startup, "that it has started", says("worker started"))
	began := time.Now()
	e := p.await(0, 30*time.Second, "that it can't hear", says("running on polling alone"))
	atMost(t, "from the start to saying that nothing is heard", time.Since(began), noticed)
	t.Logf("it says: %s", e.text("reason"))
	p.notReady(5*time.Second, "pooler")
	if n := p.log.count(0, func(e entry) bool { return says("running on polling alone")(e) && len(e.text("reason")) > 40 }); n == 0 {
		t.Error("it does not say why")
	}
	load := r.clients(2, 6, 20*time.Millisecond)
	time.Sleep(long(4 * time.Second))
	load.stop()
	r.settle(60 * time.Second)
	v := r.judge(load)
	atMost(t, "the slowest id by polling", v.Slowest, 10*time.Second)
}
