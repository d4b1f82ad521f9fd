package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errPortTaken = errors.New("the port is taken")

const readyWithin = 2 * time.Minute

// launch starts the postmaster on the data folder and returns when it accepts connections. s.mu is held, or s is not
// shared yet.
func (s *Server) launch(ctx context.Context) error {
	mark, err := s.openLog()
	if err != nil {
		return err
	}
	defer mark.file.Close()
	cmd := exec.Command(filepath.Join(s.Dir, "postgres"), s.arguments()...)
	s.acct.apply(cmd)
	cmd.Stdout, cmd.Stderr = mark.file, mark.file
	if err := s.guard.starting(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", cmd.Path, err), s.guard.none())
	}
	s.pid = cmd.Process.Pid
	// We wait for the pid ourselves (reap): so no goroutine has to stand by for the server's whole life.
	if err := errors.Join(cmd.Process.Release(), s.guard.started(s.pid)); err != nil {
		return errors.Join(err, s.halt(Immediate))
	}
	deadline := time.Now().Add(readyWithin)
	for {
		if pid, ready := postmaster(s.dataDir()); ready && pid == s.pid {
			return nil
		}
		if status, gone := reap(s.pid); gone {
			s.pid = 0
			text := mark.text()
			err := s.guard.none()
			if strings.Contains(text, "Address already in use") {
				return errors.Join(fmt.Errorf("PostgreSQL on port %d: %w", s.port, errPortTaken), err)
			}
			return errors.Join(fmt.Errorf("PostgreSQL did not start (%s): %s", status, tail(text)), err)
		}
		var why error
		select {
		case <-ctx.Done():
			why = fmt.Errorf("start PostgreSQL: %w", context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
			if time.Now().After(deadline) {
				why = fmt.Errorf("PostgreSQL was not ready after %s: %s", readyWithin, tail(mark.text()))
			}
		}
		if why != nil {
			return errors.Join(why, s.halt(Immediate))
		}
	}
}

// arguments are all of the server's settings: on the command line, so that the data folder stays as initdb made it.
func (s *Server) arguments() []string {
	set := map[string]string{
		"listen_addresses": "", "port": strconv.Itoa(s.port),
		"unix_socket_directories": `"` + s.SocketDir() + `"`, "unix_socket_permissions": "0700",
		"shared_buffers": "64MB", "max_connections": "200", "max_wal_size": "1GB",
		"timezone": "UTC", "log_timezone": "UTC", "jit": "off", "cluster_name": "notifyworker",
		"log_line_prefix": LogLinePrefix, "log_min_messages": "warning",
	}
	if s.cfg.TCP {
		set["listen_addresses"] = "127.0.0.1"
	}
	if !s.cfg.Durable {
		// synchronous_commit stays on: what commits do must be the same as in production, only the disk is spared.
		set["fsync"], set["full_page_writes"] = "off", "off"
	}
	for k, v := range s.cfg.Settings {
		set[k] = v
	}
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	args := []string{"-D", s.dataDir()}
	for _, k := range keys {
		args = append(args, "-c", k+"="+set[k])
	}
	return args
}

// reap takes the exit status of a child that has ended.
func reap(pid int) (status string, gone bool) {
	var ws syscall.WaitStatus
	got, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	switch {
	case errors.Is(err, syscall.ECHILD):
		return "it is gone", true
	case err != nil || got != pid:
		return "", false
	case ws.Signaled():
		return "killed by " + ws.Signal().String(), true
	default:
		return "exit code " + strconv.Itoa(ws.ExitStatus()), true
	}
}

// tail is the end of a log, for an error's text.
func tail(log string) string {
	const most = 2000 // bytes
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return string(bytes.TrimSpace([]byte(log)))
}
