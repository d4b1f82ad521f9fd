package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary start a server, say where it is, and wait to be killed.
const childEnv = "NOTIFYWORKER_TEST_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childEnv); how != "" {
		os.Exit(child(how))
	}
	os.Exit(m.Run())
}

func child(how string) int {
	s, err := Start(context.Background(), Config{Choice: os.Getenv("NOTIFYWORKER_PG")})
	if err == nil && how == "paused" {
		err = s.Pause()
	}
	if err == nil && how == "restarted" {
		err = s.Restart(context.Background(), Immediate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.PID(), s.home)
	if how == "panic" {
		panic("as tests do")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // as long as the parent lives
	runtime.KeepAlive(s)                 // a server that is garbage closes its guard's pipe, and so ends
	return 0
}

// shortTemp is a folder that sockets fit into and that every account can pass through.
func shortTemp(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("/tmp", "nwt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func childCommand(t *testing.T, how, temp string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+how, "TMPDIR="+temp)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// running lists processes whose arguments name the folder.
func running(t *testing.T, folder string) []int {
	t.Helper()
	out, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	var pids []int
	for l := range strings.Lines(string(out)) {
		if f := strings.Fields(l); strings.Contains(l, folder) {
			pid, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func homes(t *testing.T, temp string) []string {
	t.Helper()
	h, err := filepath.Glob(filepath.Join(temp, "nwpg-*", homePrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// gone waits until neither process nor folder is left.
func gone(t *testing.T, temp string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p, h := running(t, temp), homes(t, temp)
		if len(p)+len(h) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s there are still processes %v and folders %v", patience, p, h)
		}
	}
}

func TestAKilledCallerLeavesNothing(t *testing.T) {
	for _, how := range []string{"running", "panic", "restarted", "paused"} {
		t.Run(how, func(t *testing.T) {
			temp := shortTemp(t)
			cmd, out := childCommand(t, how, temp)
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("the child said %q: %v", line, err)
			}
			if len(homes(t, temp)) != 1 || len(running(t, temp)) == 0 {
				t.Fatalf("the server of %q is not there", line)
			}
			if how != "panic" {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("the child ended in order: the test has not shown what it should")
			}
			gone(t, temp)
		})
	}
}

// TestKilledAtAnyMoment kills while the server is being made: initdb, fork, start.
func TestKilledAtAnyMoment(t *testing.T) {
	temp, cache := shortTemp(t), shortTemp(t)
	link, err := findForTest(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFYWORKER_PG", link.Dir)
	t.Setenv(cacheEnv, cache)
	for range 25 {
		// A cache without a template now and then: so initdb is among what is interrupted.
		if rand.N(3) == 0 {
			tmpl, err := filepath.Glob(filepath.Join(cache, templatePrefix+"*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tmpl {
				os.RemoveAll(d)
			}
		}
		cmd, _ := childCommand(t, "running", temp)
		time.Sleep(rand.N(400 * time.Millisecond)) // any moment is what is tested
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	for end := time.Now().Add(patience); len(running(t, temp)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes are left: %v", running(t, temp))
		}
	}
	// Who is killed between making the folder and starting the guard leaves an empty one to the next start's sweep.
	t.Setenv("TMPDIR", temp)
	s := start(t, Config{Choice: link.Dir})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, temp)
}

func findForTest(t *testing.T) (Binaries, error) {
	return Find(t.Context(), Config{Choice: os.Getenv("NOTIFYWORKER_PG")})
}

// TestSweep: when the guard was killed too, the next start of anybody ends the server and removes the folder.
func TestSweepEndsWhatNobodyGuards(t *testing.T) {
	temp := shortTemp(t)
	cmd, out := childCommand(t, "running", temp)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	var home string
	if _, err := fmt.Sscan(line, &pid, &home); err != nil {
		t.Fatal(err)
	}
	var guards []int
	for _, p := range running(t, home) {
		if strings.HasSuffix(strings.TrimRight(string(commandLine(p)), "\x00"), home) { // its last argument
			guards = append(guards, p)
		}
	}
	if len(guards) != 1 {
		t.Fatalf("found %d guards of %s", len(guards), home)
	}
	// A signal takes a moment to reach a process that runs on another core: one after the other, or the guard still acts.
	if err := syscall.Kill(guards[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); len(commandLine(guards[0])) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the guard outlives SIGKILL")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(commandLine(pid)) == 0 {
		log, lerr := os.ReadFile(filepath.Join(home, logName))
		t.Fatalf("the server ended by itself (signal 0: %v; left: %v); the test has not shown what it should; its log: %s (%v)",
			syscall.Kill(pid, 0), running(t, home), tail(string(log)), lerr)
	}
	t.Setenv("TMPDIR", temp)
	s := start(t, Config{})
	if len(commandLine(pid)) > 0 {
		t.Error("the server of a dead caller still runs")
	}
	if h := homes(t, temp); len(h) != 1 || h[0] != s.home {
		t.Errorf("folders: %v, want %s alone", h, s.home)
	}
	// A living caller's server is nobody's to sweep.
	other := start(t, Config{})
	connect(t, s.URL("postgres"))
	connect(t, other.URL("postgres"))
}
