package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is within what time two signals are one: GNU timeout, for one, signals the process and then its group.
const sameSignal = 100 * time.Millisecond

// untilSignal ends the context at the first Ctrl-C or SIGTERM; the second one ends the process as it always does.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, stop) }) // from then on a signal is deadly again
	return ctx, stop
}

// secondSignal is why a context was ended at once.
type secondSignal struct{ os.Signal }

func (s secondSignal) Error() string { return "ended at once by a second signal: " + s.String() }

// code is what a shell expects of a process that a signal ended.
func (s secondSignal) code() int {
	if n, ok := s.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailure
}

// twoSignals returns two contexts: stop ends at the first signal, end at the second. Should the process then still be there
// after two seconds, it is ended without asking. release ends both, and what waits for signals.
func twoSignals(parent context.Context, told func(os.Signal)) (stop, end context.Context, release func()) {
	stop, cancelStop := context.WithCancelCause(parent)
	end, cancelEnd := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for first := (time.Time{}); ; {
			select {
			case <-quit:
				return
			case s := <-signals:
				if !first.IsZero() && time.Since(first) < sameSignal {
					continue
				}
				told(s)
				if first.IsZero() {
					first = time.Now()
					cancelStop(fmt.Errorf("stopped by %v", s))
					continue
				}
				second := secondSignal{s}
				cancelEnd(second)
				select {
				case <-quit:
				case <-time.After(2 * time.Second):
					os.Exit(second.code())
				}
				return
			}
		}
	}()
	return stop, end, func() {
		signal.Stop(signals)
		close(quit)
		<-ended
		cancelStop(nil)
		cancelEnd(nil)
	}
}
