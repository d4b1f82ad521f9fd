package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"notifyworker/internal/embedded"
)

// process is a worker: a real one, so that what is shown is what a user runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	pipe  io.Closer // its closing, by stop or by our death, ends the process
	log   *tail
	done  chan struct{}
	err   error // after done
	asked sync.Once
}

// startWorker runs executable as a worker of the set. The password travels in the environment, not in the arguments.
func startWorker(executable string, db *database, s set, n int) (*process, error) {
	args := append([]string{
		"run", "--exit-with-parent", "--schema=" + s.schema, "--recompute=sql:demo.recompute",
		"--article-function=pricing.article_of", "--products-function=pricing.products_of", "--drain-timeout=5s", "--http=off", "--log-format=text",
	}, s.flags...)
	p := &process{name: fmt.Sprintf("worker %d %s", n, s.name), log: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(executable, args...)
	p.cmd.Env = append(embedded.Environ(os.Environ(), db.own()), "DATABASE_URL="+db.url)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us: the workers drain when we tell them to
	pipe, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.pipe = pipe
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// stop lets the worker drain, and ends it if it takes too long.
func (p *process) stop() error {
	p.asked.Do(func() { p.cmd.Process.Signal(syscall.SIGTERM) }) //nolint:errcheck // it may be gone already
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.pipe.Close()       //nolint:errcheck // it is killed
		p.cmd.Process.Kill() //nolint:errcheck // it may be gone already
		<-p.done
		return fmt.Errorf("%s did not drain:\n%s", p.name, p.log)
	}
	p.pipe.Close() //nolint:errcheck // nobody reads it any more
	if p.err != nil {
		return fmt.Errorf("%s: %w:\n%s", p.name, p.err, p.log)
	}
	return nil
}

// stopAll stops all at once and returns what went wrong.
func stopAll(ps []*process) error {
	errs := make([]error, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() { errs[i] = p.stop() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// watch ends ctx with an error when one of the workers ends unasked.
func watch(ctx context.Context, ps []*process, fail context.CancelCauseFunc) {
	for _, p := range ps {
		go func() {
			select {
			case <-p.done:
				if ctx.Err() == nil {
					fail(fmt.Errorf("%s ended: %v:\n%s", p.name, p.err, p.log))
				}
			case <-ctx.Done():
			}
		}()
	}
}

// tail keeps the end of what a worker logs, for the case that it is needed.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*tailSize {
		t.buf = bytes.Clone(t.buf[len(t.buf)-tailSize:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf[max(0, len(t.buf)-tailSize):]
	return strings.TrimSpace(string(b))
}
