package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"notifyworker/internal/faultproxy"

	"go.uber.org/goleak"
)

// echo is a server that says back what it hears.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// say writes one byte and waits up to patience for it to come back.
func say(c net.Conn, patience time.Duration) error {
	if _, err := c.Write([]byte{'x'}); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	return err
}

const patience = time.Minute

func TestProxyFailsAsAsked(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	to := echo(t)
	p := faultproxy.New(t, to)
	c := dial(t, p.Addr())
	if err := say(c, patience); err != nil {
		t.Fatalf("through the proxy: %v", err)
	}
	p.Delay(50 * time.Millisecond)
	if start := time.Now(); say(c, patience) != nil || time.Since(start) < 100*time.Millisecond {
		t.Errorf("delayed by 50 ms each way, came back after %v", time.Since(start))
	}
	p.Delay(0)
	p.Silence(true)
	if err := say(c, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("silenced: got %v, want a time-out", err)
	}
	p.Silence(false)
	c.Close() // a late echo may still come on it, and the server listens to one at a time
	c = dial(t, p.Addr())
	if err := say(c, patience); err != nil {
		t.Fatalf("through the proxy again: %v", err)
	}
	p.Reset()
	if err := say(c, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut: got %v, want an error at once", err)
	}
	p.Refuse(true)
	// The reset comes after the connection was made: the kernel may tell of it already while dialling.
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Cleanup(func() { c.Close() })
		if err := say(c, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("refused: got %v, want an error at once", err)
		}
	}
	if got := p.Accepted(); got != 3 {
		t.Errorf("accepted %d connections, want 3", got)
	}
}
