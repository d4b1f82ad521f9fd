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
		b, err := os.ReadFile(p)
		if err != nil {
			continue // gone meanwhile
		}
		// pid (name) state parent …; the name may hold anything, parentheses too.
		i := bytes.LastIndexByte(b, ')')
		f := bytes.Fields(b[i+1:])
		if i < 0 || len(f) < 2 || string(f[1]) != strconv.Itoa(pid) {
			continue
		}
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
			out = append(out, n)
		}
	}
	return out
}
