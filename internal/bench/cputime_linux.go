package bench

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time of a process so far, to the nanosecond, with that of threads that have ended. It asks the
// process's own clock: /proc/PID/stat counts steps of 10 ms, which is more than an idle worker takes in a second, and
// /proc/PID/schedstat tells of the first thread alone.
func cpuTime(ctx context.Context, pid int) (time.Duration, error) {
	var t unix.Timespec
	// The clock's number is what clock_getcpuclockid makes of a process: its id turned around, and 2 for time that was run.
	if err := unix.ClockGettime(int32(^pid)<<3|2, &t); err != nil {
		return tickedTime(ctx, pid) // a sandbox without such clocks, or the process is gone
	}
	return time.Duration(t.Nano()), nil
}
