package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockFile waits until it holds an exclusive lock on p, and returns what gives it up.
func lockFile(ctx context.Context, p string) (unlock func(), err error) {
	for {
		f, err := tryLock(p)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", p, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// tryLock takes an exclusive lock on p or fails at once with EWOULDBLOCK. Closing the file gives it up, and so does the
// end of the process.
func tryLock(p string) (*os.File, error) { return flock(p, syscall.LOCK_EX|syscall.LOCK_NB) }

// sharedLock takes a lock that others may share.
func sharedLock(p string) (*os.File, error) { return flock(p, syscall.LOCK_SH) }

func flock(p string, how int) (*os.File, error) {
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", p, err)
	}
}
