package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

// withGoRun ends the context when "go run" was our parent and is gone: whoever kills that means us.
func withGoRun(parent context.Context, executable string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ended := make(chan struct{})
	if !strings.Contains(executable, string(os.PathSeparator)+"go-build") {
		close(ended)
	} else {
		go func() {
			defer close(ended)
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for starter := os.Getppid(); os.Getppid() == starter; {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
			cancel(errors.New("go run, which started this, is gone"))
		}()
	}
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}
