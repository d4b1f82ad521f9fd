package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sweep removes what processes left whose guard died with them (a power cut, a container that was killed whole). A home
// whose lock can be had has no owner. The caller holds the lock of the base folder.
func sweep(base string) {
	homes, err := filepath.Glob(filepath.Join(base, homePrefix+"*"))
	if err != nil {
		return
	}
	for _, h := range homes {
		f, err := tryLock(filepath.Join(h, lockName))
		if err != nil {
			continue
		}
		if pid, _ := postmaster(filepath.Join(h, dataName)); pid > 1 && isServerOf(pid, h) {
			endServer(pid, h)
		}
		os.RemoveAll(h)
		f.Close()
	}
}

// endServer ends a server that is not our child, and returns when it is gone.
func endServer(pid int, home string) {
	for _, sig := range []syscall.Signal{syscall.SIGCONT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := syscall.Kill(pid, sig); err != nil {
			return
		}
		if sig == syscall.SIGCONT {
			continue
		}
		for range 400 { // 8 s: a postmaster kills children that ignore SIGQUIT after 5
			if !isServerOf(pid, home) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// isServerOf guards against a recycled pid. A zombie, where no init reaps, has no arguments any more.
func isServerOf(pid int, home string) bool {
	return bytes.Contains(commandLine(pid), []byte(filepath.Join(home, dataName)))
}

// postmaster reads the state file of a data folder: line 1 is the server's pid, line 8 "ready" once it accepts connections.
func postmaster(data string) (pid int, ready bool) {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	l := strings.Split(string(b), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(l[0]))
	if err != nil {
		return 0, false
	}
	return pid, len(l) > 7 && strings.TrimSpace(l[7]) == "ready"
}
