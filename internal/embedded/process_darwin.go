package embedded

import (
	"os/exec"
	"strconv"
	"strings"
)

// commandLine returns a process's arguments, or nothing when it is gone or a zombie.
func commandLine(pid int) []byte {
	b, err := exec.Command("/bin/ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return b
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	b, err := exec.Command("/bin/ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var out []int
	for l := range strings.Lines(string(b)) {
		f := strings.Fields(l)
		if len(f) != 2 || f[1] != strconv.Itoa(pid) {
			continue
		}
		if n, err := strconv.Atoi(f[0]); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// stopped says whether a process stands still because of SIGSTOP; also of one that is gone.
func stopped(pid int) bool {
	out, err := exec.Command("/bin/ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
