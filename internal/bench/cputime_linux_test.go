package bench

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// used is what getrusage says of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// burn computes for so long.
func burn(t *testing.T, d time.Duration) {
	for began := used(t); used(t)-began < d; {
		for n := range 1000 {
			math.Sqrt(float64(n))
		}
	}
}

func TestAProcessesTimeIsThatOfAllItsThreads(t *testing.T) {
	if os.Getenv("NOTIFYWORKER_TEST_BURN") != "" { // the child
		var threads sync.WaitGroup
		for range 2 {
			threads.Go(func() {
				runtime.LockOSThread() // and never unlocked: the thread ends, too
				burn(t, 500*time.Millisecond)
			})
		}
		threads.Wait()
		fmt.Println("burnt")
		bufio.NewReader(os.Stdin).ReadByte() //nolint:errcheck // its end is what is waited for
		os.Exit(0)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "NOTIFYWORKER_TEST_BURN=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, errRead := bufio.NewReader(out).ReadString('\n')
	got, err := cpuTime(t.Context(), cmd.Process.Pid)
	ticked, errTicked := tickedTime(t.Context(), cmd.Process.Pid)
	in.Close()
	if errWait := cmd.Wait(); said != "burnt\n" || errRead != nil || errWait != nil || err != nil || errTicked != nil {
		t.Fatalf("the child said %q: %v, %v; the clocks: %v, %v", said, errRead, errWait, err, errTicked)
	}
	want := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	rounding := map[string]time.Duration{"its ticks": 20 * time.Millisecond} // user and system time, each rounded down
	for what, d := range map[string]time.Duration{"its clock": got, "its ticks": ticked} {
		if off := (d - want).Abs(); off > want/20+rounding[what] {
			t.Errorf("%s: %v, getrusage: %v", what, d, want)
		}
	}
}

func TestAMillisecondOfWorkIsNoticed(t *testing.T) {
	last, err := cpuTime(t.Context(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		began := used(t)
		burn(t, time.Millisecond)
		now, err := cpuTime(t.Context(), os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now-last < time.Millisecond || now-last > used(t)-began+5*time.Millisecond {
			t.Fatalf("%v passed on its clock, %v by getrusage", now-last, used(t)-began)
		}
		last = now
	}
}
