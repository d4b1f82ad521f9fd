package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/queue"
)

// holdType is the type of jobs that run until they are told to stop.
const holdType = "bench_hold"

// workThere runs a worker as a process of its own until ctx ends: notifyworker run as it is, with Handlers.
func (r *run) workThere(ctx context.Context, c *contender) error {
	how := "quiet"
	if c.tell {
		how = "tell"
	}
	drain := time.Second
	if c.hold {
		drain = 50 * time.Millisecond
	}
	args := []string{
		"run", "--exit-with-parent", "--bench=" + how, "--schema=" + c.schema, "--recompute=none", "--http=127.0.0.1:0", "--drain-timeout=" + drain.String(),
		"--log-format=json", "--log-level=info",
	}
	if c.poll > 0 {
		args = append(args, "--wake=poll", "--poll-interval="+c.poll.String())
	}
	if c.slots > 0 {
		args = append(args, "--slots="+strconv.Itoa(c.slots))
	}
	cmd := exec.CommandContext(ctx, r.cfg.Executable, args...)
	cmd.Env = append(embedded.Environ(os.Environ(), r.place.own != nil), "DATABASE_URL="+r.place.url) // the password travels here, not in the arguments
	log := newJournal(c.troubles)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us: the workers stop when we tell them to
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 8 * time.Second
	alive, end, err := os.Pipe() // its end, be it by our death, ends the process
	if err != nil {
		return err
	}
	defer end.Close()
	cmd.Stdin = alive
	told, err := cmd.StdoutPipe()
	if err != nil {
		alive.Close()
		return err
	}
	err = cmd.Start()
	alive.Close()
	if err != nil {
		return err
	}
	pid := cmd.Process.Pid
	c.mu.Lock()
	c.procs = append(c.procs, process{pid, log})
	c.mu.Unlock()
	c.starts.read(told)
	cmd.Wait() //nolint:errcheck // its state says as much
	c.mu.Lock()
	c.procs = slices.DeleteFunc(c.procs, func(p process) bool { return p.pid == pid })
	c.mu.Unlock()
	if ctx.Err() == nil { // also when it says that all is well: the turn would go on without it
		return fmt.Errorf("it ended (%v); its log: %s", cmd.ProcessState, c.troubles)
	}
	return nil
}

// read takes in what Handlers writes, until the process ends.
func (s *starts) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		a, b, _ := strings.Cut(lines.Text(), " ")
		id, err1 := strconv.ParseInt(a, 10, 64)
		at, err2 := strconv.ParseInt(b, 10, 64)
		if err1 == nil && err2 == nil {
			s.begin(id, time.Unix(0, at))
		}
	}
}

// Handlers are what a worker process of the benchmark has instead of a user's: jobs of one type do nothing, and neither do
// price refreshes; jobs of another run until they are stopped. Where tell is set, each start is written to out.
func Handlers(out io.Writer, tell bool) map[string]queue.Handler {
	nothing := queueHandler(func(_ context.Context, j queue.Job) queue.Outcome {
		if tell {
			fmt.Fprintf(out, "%d %d\n", j.ID, time.Now().UnixNano()) // one write, which a pipe does not mix with others
		}
		return queue.Outcome{}
	})
	return map[string]queue.Handler{
		jobType: nothing, queue.TypePriceRefresh: nothing,
		holdType: queueHandler(func(ctx context.Context, _ queue.Job) queue.Outcome {
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Failed, Err: ctx.Err()}
		}),
	}
}
