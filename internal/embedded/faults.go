package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Mode is how the server is ended.
type Mode string

const (
	// Fast rolls back what is open, disconnects clients and writes a checkpoint, as `pg_ctl stop -m fast` does.
	Fast Mode = "fast"
	// Immediate aborts all at once: the next start recovers from the write-ahead log.
	Immediate Mode = "immediate"
	// Killed is SIGKILL to the postmaster, as by the system when memory runs out: sessions notice and end by themselves.
	Killed Mode = "killed"
)

// ErrStopped is returned by what is asked of a server after Stop.
var ErrStopped = errors.New("the server was stopped")

// PID of the postmaster; 0 while it is halted.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// Restart ends the server and starts it again on the same data, port and socket.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Halt(mode); err != nil {
		return err
	}
	return s.Relaunch(ctx)
}

// Halt ends the server and keeps its data for Relaunch. Halting a halted server does nothing.
func (s *Server) Halt(mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.halt(mode); err != nil {
		return fmt.Errorf("halt PostgreSQL: %w", err)
	}
	return nil
}

// Relaunch starts a halted server. It does nothing when the server runs.
func (s *Server) Relaunch(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if s.pid != 0 && !s.died() {
		return nil
	}
	s.pid, s.paused = 0, false
	// Sessions of a killed postmaster hold its shared memory until they have noticed, and somebody's connection may have the port.
	for end := time.Now().Add(readyWithin); ; time.Sleep(20 * time.Millisecond) {
		err := s.launch(ctx)
		passes := errors.Is(err, errPortTaken) || err != nil && strings.Contains(err.Error(), "shared memory block")
		if !passes || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// died says whether the postmaster has ended without being asked by us. A process without arguments is about to: its
// status comes in a moment.
func (s *Server) died() bool {
	for range 5000 { // 5 s
		if _, gone := reap(s.pid); gone {
			return true
		}
		if len(commandLine(s.pid)) > 0 {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// halt ends the postmaster, if it runs, and returns when it is gone.
func (s *Server) halt(mode Mode) error {
	if s.pid == 0 {
		return nil
	}
	if s.paused {
		s.signalAll(syscall.SIGCONT)
		s.paused = false
	}
	sig, patience := syscall.SIGQUIT, 30*time.Second // it kills what ignores SIGQUIT after 5 s
	switch mode {
	case Fast:
		sig, patience = syscall.SIGINT, 2*time.Minute // its checkpoint may take time
	case Immediate:
	case Killed:
		sig = syscall.SIGKILL
	default:
		return fmt.Errorf("mode %q is none of fast, immediate, killed", mode)
	}
	for {
		if err := syscall.Kill(s.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %d: %w", s.pid, err)
		}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if _, gone := reap(s.pid); gone {
				s.pid = 0
				return s.guard.none()
			}
		}
		switch sig {
		case syscall.SIGINT:
			sig, patience = syscall.SIGQUIT, 30*time.Second
		case syscall.SIGQUIT:
			sig = syscall.SIGKILL
		default:
			return fmt.Errorf("process %d does not end, not even by SIGKILL", s.pid)
		}
	}
}

// Pause freezes the server and all its sessions (SIGSTOP): connections stay open and say nothing, as when a host hangs.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.pid == 0 {
		return ErrStopped
	}
	if err := syscall.Kill(s.pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause PostgreSQL: %w", err)
	}
	s.paused = true
	// The postmaster first: then it can make no child any more. A signal takes a moment to reach a process that runs.
	for end := time.Now().Add(readyWithin); !stopped(s.pid) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s.signalAll(syscall.SIGSTOP)
	return nil
}

// Resume ends a Pause.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.pid == 0 {
		return ErrStopped
	}
	s.signalAll(syscall.SIGCONT)
	s.paused = false
	return nil
}

// signalAll reaches the postmaster and its children; one that is gone meanwhile does not matter. Each backend is a
// process group of its own, so no signal to a group would reach them.
func (s *Server) signalAll(sig syscall.Signal) {
	for _, pid := range append(children(s.pid), s.pid) {
		_ = syscall.Kill(pid, sig) // ESRCH: it has ended
	}
}
