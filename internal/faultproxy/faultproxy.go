// Package faultproxy is a TCP proxy for tests that can slow, silence, refuse or cut connections.
package faultproxy

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards TCP connections to one address, and fails in the way that a test asks for.
type Proxy struct {
	l      net.Listener
	to     string
	delay  atomic.Int64 // per chunk and direction, ns
	silent atomic.Bool
	muted  atomic.Int64 // connections up to this number are silent
	refuse atomic.Bool
	wg     sync.WaitGroup

	mu       sync.Mutex
	conns    map[*net.TCPConn]struct{} // both ends of every connection
	accepted int
	stopped  bool
}

// New starts a proxy to an address such as 127.0.0.1:5432. It stops with the test.
func New(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("fault proxy to %s: %v", to, err)
	}
	p := &Proxy{l: l, to: to, conns: map[*net.TCPConn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.stopped = true
		p.mu.Unlock()
		l.Close()
		p.Reset()
		p.wg.Wait()
	})
	return p
}

// Addr is where to connect, host and port.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Port is the port of Addr.
func (p *Proxy) Port() uint16 { return uint16(p.l.Addr().(*net.TCPAddr).Port) }

// Accepted returns how many connections were made so far, refused ones included.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Delay holds back each chunk of data for d, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Silence makes a black hole: both ends stay connected, and what either says gets lost without an error.
func (p *Proxy) Silence(on bool) { p.silent.Store(on) }

// Mute makes a black hole of the present connections for good; new ones are forwarded.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted.Store(int64(p.accepted))
}

// Refuse resets new connections.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// Reset cuts the present connections, with a RST on both ends.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.SetLinger(0) // RST, not FIN
		c.Close()
	}
}

func (p *Proxy) add(c *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		in := c.(*net.TCPConn)
		p.mu.Lock()
		p.accepted++
		number := int64(p.accepted)
		p.mu.Unlock()
		if p.refuse.Load() {
			_ = in.SetLinger(0)
			in.Close()
			continue
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.SetLinger(0)
			in.Close()
			continue
		}
		o := out.(*net.TCPConn)
		if !p.add(in) || !p.add(o) {
			in.Close()
			o.Close()
			continue
		}
		p.wg.Go(func() { p.pipe(in, o, number) })
		p.wg.Go(func() { p.pipe(o, in, number) })
	}
}

func (p *Proxy) pipe(from, to *net.TCPConn, number int64) {
	defer func() {
		from.Close()
		to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		delete(p.conns, to)
		p.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.silent.Load() && number > p.muted.Load() {
			time.Sleep(time.Duration(p.delay.Load()))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
