package listen

import (
	"math/rand/v2"
	"time"
)

// The delays before a connection is tried again.
const (
	retryFirst = 40 * time.Millisecond // after the loss of a good connection: a restart of the server takes about that long
	retryCap   = 3 * time.Second
	// A connection that was had but does not hear is most likely a matter of configuration. It is tried again (somebody may
	// repair it), but rarely: behind a pooler each LISTEN leaves a server session behind that listens to nobody's use.
	retryDeafFirst = time.Second
	retryDeafCap   = 30 * time.Second
)

// retry computes the delays. Its zero value allows the first try at once.
type retry struct {
	tried bool
	fails int // since LISTEN last stood
	deaf  int // connections in a row that stood and heard nothing, or on which LISTEN was refused
}

// next is the delay before the next try.
func (r *retry) next() time.Duration {
	if !r.tried {
		r.tried = true
		return 0
	}
	d := grow(retryFirst, retryCap, r.fails)
	if r.deaf > 0 {
		d = max(d, grow(retryDeafFirst, retryDeafCap, r.deaf-1))
	}
	return d/2 + rand.N(d/2+1) // spread: all workers lose their connections at the same moment
}

func grow(first, ceiling time.Duration, n int) time.Duration {
	d := first
	for range n {
		if d *= 2; d >= ceiling {
			return ceiling
		}
	}
	return min(d, ceiling)
}
