package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheDemoEndsWithAGoodVerdict(t *testing.T) {
	d := start(t, demoEnvironment(t), "demo", "--duration=3s")
	if code := d.code(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	wantAll(t, d.out.String(), "using PostgreSQL", "published ", "commit to start, p99", "0 lost", "all is right")
	wantNothingLeft(t, d)
}

func TestADemoWithoutAServerSaysHowToGetOne(t *testing.T) {
	d := start(t, demoEnvironment(t), "demo", "--postgres=99")
	if code := d.code(); code != exitFailure {
		t.Fatalf("exit code %d", code)
	}
	wantAll(t, d.out.String(), "no PostgreSQL to run", "for the demo, give --database-url", "Node.js", "install postgresql")
}

func TestAKilledDemoLeavesNothing(t *testing.T) {
	d := start(t, demoEnvironment(t), "demo", "--duration=30s")
	for !strings.Contains(d.out.String(), "published ") {
		select {
		case <-d.done:
			t.Fatal("the demo ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
	d.signal(syscall.SIGKILL)
	d.code()
	wantNothingLeft(t, d)
}

// demoEnvironment gives the demo a folder of its own, by which its processes are found.
func demoEnvironment(t *testing.T) map[string]string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nwdemo") // short: a socket's path must be
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another account
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	env := map[string]string{"TMPDIR": dir}
	for _, name := range []string{"NOTIFYWORKER_PG", "NOTIFYWORKER_CACHE"} {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}

// wantNothingLeft looks for processes whose arguments or parent tell that they are the demo's.
func wantNothingLeft(t *testing.T, d *command) {
	t.Helper()
	dir := ""
	for _, v := range d.cmd.Env {
		if s, ok := strings.CutPrefix(v, "TMPDIR="); ok {
			dir = s
		}
	}
	var left []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(t.Context(), 50*time.Millisecond) {
		out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=,args=").Output()
		if err != nil {
			t.Fatal(err)
		}
		left = nil
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) < 4 || strings.HasPrefix(f[2], "Z") || f[0] == strconv.Itoa(os.Getpid()) {
				continue
			}
			worker := strings.HasPrefix(f[3], os.Args[0]) && strings.Contains(line, "--exit-with-parent")
			if strings.Contains(line, dir+"/") || worker {
				left = append(left, line)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("still running:\n%s", strings.Join(left, ""))
}
