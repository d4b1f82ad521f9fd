package faults

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is one run of the program.
type process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	stdin io.Closer // the worker ends when we do: see --exit-with-parent
	log   *journal
	ended chan struct{}
	code  int // once ended; -1 when a signal ended it

	expected atomic.Bool // its end is no surprise
}

// startup is how long a worker may take to be ready, on two busy cores and with the race detector.
const startup = 30 * time.Second

// start runs the program, with nothing of the caller's environment that could change what it does.
func start(t testing.TB, name string, env []string, args ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: name, cmd: exec.Command(path, args...), log: newJournal(), ended: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GORACE=exitcode=66 atexit_sleep_ms=50"}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.log.read(r)
		r.Close()
	}()
	go func() {
		var exit *exec.ExitError
		err := p.cmd.Wait()
		<-read
		p.code = 0
		if errors.As(err, &exit) {
			p.code = exit.ExitCode()
		} else if err != nil {
			p.code = -2
		}
		close(p.ended)
	}()
	t.Cleanup(p.cleanUp)
	return p
}

// cleanUp ends the process and waits for it, and fails the test for what no process may do: race, panic, end unasked.
func (p *process) cleanUp() {
	p.t.Helper()
	if !p.gone() {
		p.expected.Store(true)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
	}
	<-p.ended
	p.stdin.Close()
	if !p.expected.Load() {
		p.t.Errorf("%s ended unasked, with code %d", p.name, p.code)
	}
	for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if p.log.count(0, func(e entry) bool { return strings.HasPrefix(e.message(), bad) }) > 0 {
			p.t.Errorf("%s said %q", p.name, bad)
		}
	}
	if p.t.Failed() {
		p.t.Logf("end of the log of %s (process %d):\n%s", p.name, p.pid(), p.log.tail(25))
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// send sends a signal.
func (p *process) send(sig syscall.Signal) {
	p.t.Helper()
	if sig != syscall.SIGSTOP && sig != syscall.SIGCONT {
		p.expected.Store(true)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("send %v to %s: %v", sig, p.name, err)
	}
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	p.t.Helper()
	p.expected.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// freeze is SIGSTOP; it returns when the process stands still.
func (p *process) freeze() {
	p.t.Helper()
	p.send(syscall.SIGSTOP)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
		if err != nil || strings.Contains(string(stat), ") T ") {
			return // without /proc we have to believe it
		}
	}
	p.t.Fatalf("%s does not stop at SIGSTOP", p.name)
}

// exit waits for the end and returns the exit code.
func (p *process) exit(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.code
	case <-time.After(patient(within)):
		p.t.Fatalf("%s has not ended after %v", p.name, within)
		return 0
	}
}

// await waits for a line of the log from mark on.
func (p *process) await(mark int, within time.Duration, what string, like func(entry) bool) entry {
	p.t.Helper()
	e, ok := p.log.await(mark, patient(within), like)
	if !ok {
		p.t.Fatalf("%s did not say within %v: %s", p.name, within, what)
	}
	return e
}

// files is how many file descriptors the process has open; -1 where that can't be known.
func (p *process) files() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	if err != nil {
		return -1
	}
	return len(list)
}

// threads is how many threads the process has; -1 where that can't be known.
func (p *process) threads() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(status), "\nThreads:")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return -1
	}
	return n
}
