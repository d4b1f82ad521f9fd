package load

import (
	"context"
	"io"
)

// stoppable reads r until ctx ends, whose cause is the error then. A Read of a pipe to which nobody writes can't be ended: it is left
// to itself, with a buffer of its own, and takes nothing that anybody waits for.
type stoppable struct {
	ctx context.Context
	r   io.Reader
	buf []byte
}

func (s *stoppable) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	into := s.buf[:min(len(p), len(s.buf))]
	go func() {
		n, err := s.r.Read(into)
		done <- result{n, err}
	}()
	select {
	case x := <-done:
		return copy(p, into[:x.n]), x.err
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
}
