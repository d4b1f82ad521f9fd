package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	system "github.com/shirou/gopsutil/v4/process"
)

// serverTime is the processor time so far of a server whose first process has this id, and of all its sessions: those that are over, in
// steps of 10 ms, included.
func serverTime(ctx context.Context, pid int) (sum time.Duration, err error) {
	p, err := system.NewProcessWithContext(ctx, int32(pid))
	if err != nil {
		return 0, fmt.Errorf("look at the server's process %d: %w", pid, err)
	}
	sessions, err := p.ChildrenWithContext(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the sessions of the server's process %d: %w", pid, err)
	}
	for _, s := range sessions {
		if t, err := cpuTime(ctx, int(s.Pid)); err == nil { // else it has ended by now
			sum += t
		}
	}
	own, err := cpuTime(ctx, pid)
	if err != nil {
		return 0, err
	}
	over, err := childrenTime(pid)
	return sum + own + over, err
}

// statTicks is how /proc counts processor time: a hundredth of a second on each architecture that Go runs on, see proc_pid_stat(5) and
// sysconf(_SC_CLK_TCK).
const statTicks = time.Second / 100

// childrenTime is what a process's children took that have ended: cutime and cstime of proc_pid_stat(5).
func childrenTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("ask for the processor time of process %d: %w", pid, err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // after its name, which may have blanks in it, from the third on
	if len(fields) < 15 {
		return 0, fmt.Errorf("ask for the processor time of process %d: /proc says %q", pid, stat)
	}
	var sum time.Duration
	for _, f := range fields[13:15] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("ask for the processor time of process %d: %w", pid, err)
		}
		sum += time.Duration(n) * statTicks
	}
	return sum, nil
}

// mostMemory is the largest resident set that a process has had so far, in bytes: VmHWM of proc_pid_status(5).
func mostMemory(pid int) (uint64, bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseUint(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
