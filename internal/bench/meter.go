package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	system "github.com/shirou/gopsutil/v4/process"
)

// traffic is what a contender's processes have sent so far, by their own count.
type traffic struct{ statements, pings float64 }

// sent asks for it. Asking makes some, which come after the count. So for the difference of two ask for the first one by
// sentBefore.
func (c *contender) sent(ctx context.Context) (sum traffic, err error) {
	for _, p := range c.running() {
		url, err := p.journal.url(ctx)
		if err != nil {
			return sum, err
		}
		m, err := scrape(ctx, url)
		if err != nil {
			return sum, err
		}
		n, err1 := m.counter("notifyworker_statements_total")
		pings, err2 := m.counter("notifyworker_pool_pings_total")
		if err := errors.Join(err1, err2); err != nil {
			return sum, err
		}
		sum.statements, sum.pings = sum.statements+n, sum.pings+pings
	}
	return sum, nil
}

// sentBefore asks twice: what the second one needs of the database is remembered from the first.
func (c *contender) sentBefore(ctx context.Context) (traffic, error) {
	if t, err := c.sent(ctx); err != nil {
		return t, err
	}
	return c.sent(ctx)
}

// descriptors is how many files and connections the contender's processes have open; NaN where the system doesn't tell.
func (c *contender) descriptors(ctx context.Context) float64 {
	sum := 0.0
	for _, one := range c.running() {
		p, err := system.NewProcessWithContext(ctx, int32(one.pid))
		if err != nil {
			return math.NaN()
		}
		n, err := p.NumFDsWithContext(ctx)
		if err != nil {
			return math.NaN()
		}
		sum += float64(n)
	}
	return sum
}

// peak is the memory of the largest of a contender's processes, when it was largest; or now, where the system doesn't tell that.
func (c *contender) peak(now uint64) uint64 {
	most := now
	for _, one := range c.running() {
		if bytes, ok := mostMemory(one.pid); ok {
			most = max(most, bytes)
		}
	}
	return most
}

// serverTook is the processor time so far of the server, clients' sessions included, in seconds; NaN for one that is not the bench's own, or where the
// system doesn't tell.
func (r *run) serverTook(ctx context.Context) float64 {
	if r.place.own == nil {
		return math.NaN()
	}
	t, err := serverTime(ctx, r.place.own.PID())
	if err != nil {
		return math.NaN()
	}
	return t.Seconds()
}

// usage is the processor time of a contender's processes so far, and the memory of the largest now.
func (c *contender) usage(ctx context.Context) (cpu time.Duration, rss uint64, err error) {
	for _, one := range c.running() {
		p, err := system.NewProcessWithContext(ctx, int32(one.pid))
		if err != nil {
			return 0, 0, fmt.Errorf("look at worker process %d: %w", one.pid, err)
		}
		t, err := cpuTime(ctx, one.pid)
		if err != nil {
			return 0, 0, err
		}
		m, err := p.MemoryInfoWithContext(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("ask for the memory of process %d: %w", one.pid, err)
		}
		cpu += t
		rss = max(rss, m.RSS)
	}
	return cpu, rss, nil
}

// tickedTime is the processor time of a process as every system tells it, in steps of 10 ms perhaps.
func tickedTime(ctx context.Context, pid int) (time.Duration, error) {
	p, err := system.NewProcessWithContext(ctx, int32(pid))
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	t, err := p.TimesWithContext(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for the processor time of process %d: %w", pid, err)
	}
	return time.Duration((t.User + t.System) * float64(time.Second)), nil
}
