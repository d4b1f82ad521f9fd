package faults

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/faultproxy"
)

// noticed is the promise for a network that falls silent, with default settings: from the silence to the worker saying so.
const noticed = 10 * time.Second

// proxy forwards to the rig's server.
func (r *rig) proxy() *faultproxy.Proxy {
	r.t.Helper()
	return faultproxy.New(r.t, net.JoinHostPort("127.0.0.1", strconv.Itoa(r.server.Port())))
}

// deaf is how a worker says that notifications don't reach it: one way when it had heard some, another when it never had.
func deaf(e entry) bool {
	return says("listening connection lost")(e) || says("notifications can't be had")(e)
}

// B16: a half-open connection gives no error and no notification.
func TestB16AListenerThatFellSilentIsReplacedWithinTenSeconds(t *testing.T) {
	r := onServer(t, embedded.Config{})
	proxy := r.proxy()
	p := r.launch(r.url, "--listen-url="+r.via(proxy.Addr())).listening()
	r.pickUp(10*time.Second, "c", "before")
	mark := p.log.mark()
	proxy.Mute() // this connection is gone for good, new ones work
	silent := time.Now()
	r.enqueue("c", "during") // nobody hears of it
	p.await(mark, 20*time.Second, "that the listening connection is lost", deaf)
	atMost(t, "from the silence to its detection", time.Since(silent), noticed)
	r.until(20*time.Second, "the job starts all the same", "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = 'during')")
	atMost(t, "from a job that nobody heard of to its recomputation", time.Since(silent), noticed)
	p.await(mark, 10*time.Second, "that it listens again", says("listening for notifications"))
	atMost(t, "a recomputation once it listens again", r.pickUp(5*time.Second, "c", "after"), time.Second)
}

func TestAListenerInABlackHolePollsUntilItCanListenAgain(t *testing.T) {
	r := onServer(t, embedded.Config{})
	proxy := r.proxy()
	p := r.launch(r.url, "--listen-url="+r.via(proxy.Addr())).listening()
	r.pickUp(10*time.Second, "c", "before")
	mark := p.log.mark()
	proxy.Silence(true)
	silent := time.Now()
	p.await(mark, 20*time.Second, "that the listening connection is lost", deaf)
	atMost(t, "from the silence to its detection", time.Since(silent), noticed)
	p.notReady(15*time.Second, "polling every 1s")
	for i := range 3 {
		// Polling every second now.
		atMost(t, "a recomputation meanwhile", r.pickUp(10*time.Second, "c", fmt.Sprintf("during-%d", i)), 2*time.Second)
	}
	proxy.Silence(false)
	back := time.Now()
	p.await(mark, 20*time.Second, "that it listens again", says("listening for notifications"))
	atMost(t, "from the network's return to LISTEN", time.Since(back), noticed)
	p.isReady(5 * time.Second)
	atMost(t, "a recomputation once it listens again", r.pickUp(5*time.Second, "c", "after"), time.Second)
}

// All connections at once: what the worker has is dead, and it can't know.
func TestANetworkThatFallsSilentIsNoticedAndSurvived(t *testing.T) {
	for name, fault := range map[string]func(*faultproxy.Proxy) func(){
		"for good, new connections work": func(p *faultproxy.Proxy) func() { p.Mute(); return func() {} },
		"altogether, for a while":        func(p *faultproxy.Proxy) func() { p.Silence(true); return func() { p.Silence(false); p.Reset() } },
	} {
		t.Run(name, func(t *testing.T) {
			r := onServer(t, embedded.Config{})
			proxy := r.proxy()
			p := r.launch(r.via(proxy.Addr())).listening()
			load := r.clients(3, 6, 10*time.Millisecond)
			r.pickUp(10*time.Second, "c", "before")
			time.Sleep(500 * time.Millisecond) // so that its pool is full of connections
			load.stop()
			r.settle(20 * time.Second)
			mark := p.log.mark()
			heal := fault(proxy)
			silent := time.Now()
			r.enqueue("c", "during")
			p.await(mark, 30*time.Second, "that something is wrong", func(e entry) bool {
				return says("the database does not answer as it should")(e) || deaf(e)
			})
			atMost(t, "from the silence to its detection", time.Since(silent), noticed)
			heal()
			healed := time.Now()
			r.until(60*time.Second, "the ids are recomputed", "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = 'during')")
			atMost(t, "from the detection to a recomputation", time.Since(healed), 5*time.Second)
			r.settle(20 * time.Second)
			r.judge(load)
		})
	}
}

func TestASlowNetworkIsNotTakenForADeadOne(t *testing.T) {
	r := onServer(t, embedded.Config{})
	proxy := r.proxy()
	proxy.Delay(60 * time.Millisecond)
	p := r.launch(r.via(proxy.Addr()))
	p.listening()
	mark := p.log.mark()
	load := r.clients(2, 6, 30*time.Millisecond)
	time.Sleep(long(7 * time.Second)) // long enough for an own echo
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
	if n := p.log.count(mark, deaf); n > 0 {
		blame(t, "the listening connection was given up %d times", n)
	}
}

// Connections are cut again and again, in the midst of whatever is being said.
func TestANetworkThatCutsConnectionsLosesNothing(t *testing.T) {
	r := onServer(t, embedded.Config{})
	proxy := r.proxy()
	for range 2 {
		r.launch(r.via(proxy.Addr()), "--chunk=2", "--lease=2s").listening()
	}
	load := r.clients(4, 6, 10*time.Millisecond)
	for i, end := 0, time.Now().Add(long(6*time.Second)); time.Now().Before(end); i++ {
		time.Sleep(time.Duration(100+i%7*40) * time.Millisecond) // the fault itself: whatever is being said then
		proxy.Reset()
	}
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
}
