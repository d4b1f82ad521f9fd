//go:build !linux

package bench

import (
	"context"
	"time"
)

// cpuTime is the processor time of a process so far.
func cpuTime(ctx context.Context, pid int) (time.Duration, error) { return tickedTime(ctx, pid) }
