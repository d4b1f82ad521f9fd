//go:build !linux

package bench

import (
	"context"
	"errors"
	"time"
)

// serverTime is told on Linux alone.
func serverTime(context.Context, int) (time.Duration, error) {
	return 0, errors.New("this system doesn't tell what a server's sessions took that are over")
}

// mostMemory is told on Linux alone.
func mostMemory(int) (uint64, bool) { return 0, false }
