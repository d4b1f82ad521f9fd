package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 0, "how long the tests that get better by time may take each, instead of seconds")

// binaryEnv names a program to test instead of the one that is built.
const binaryEnv = "NOTIFYWORKER_FAULTS_BINARY"

// scratch is the folder of everything that this test run builds; TestMain removes it.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "6") // they wait most of their time: for leases, time-outs, restarts
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "notifyworker-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	var beating sync.WaitGroup
	stop := make(chan struct{})
	beating.Go(func() { ticks.beat(stop) })
	defer func() { close(stop); beating.Wait() }()
	return m.Run()
}

// program builds the program once a test run, with the race detector if the tests have it.
var program = sync.OnceValues(func() (string, error) {
	if p := os.Getenv(binaryEnv); p != "" {
		return p, nil
	}
	path := filepath.Join(scratch, "notifyworker")
	args := []string{"build", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "notifyworker/cmd/notifyworker")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build the program to be tested: %w\n%s", err, out))
	}
	return path, nil
})

// long is how long a test that gets better by time takes: short in every run, half of that with -short, else as -soak says.
func long(short time.Duration) time.Duration {
	if testing.Short() {
		short /= 2
	}
	return max(short, *soak)
}

// times is how often something is repeated: n in every run, more by -soak.
func times(n, soaked int) int {
	if *soak > 0 {
		return soaked
	}
	return n
}
