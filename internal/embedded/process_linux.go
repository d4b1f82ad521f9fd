package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// commandLine returns a process's arguments, or nothing when it is gone or a zombie. It reads /proc: small images have no ps.
func commandLine(pid int) []byte {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	return b
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	for _, p := range stats {
		if _, parent := stat(p); parent != strconv.Itoa(pid) {
			continue
		}
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// stopped says whether a process stands still because of SIGSTOP; also of one that is gone.
func stopped(pid int) bool {
	state, _ := stat("/proc/" + strconv.Itoa(pid) + "/stat")
	return state == "" || state == "T"
}

// stat reads a process's state and parent; nothing when it is gone.
func stat(file string) (state, parent string) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", ""
	}
	// pid (name) state parent …; the name may hold anything, parentheses too.
	i := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[i+1:])
	if i < 0 || len(f) < 2 {
		return "", ""
	}
	return string(f[0]), string(f[1])
}
