package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	steadyRate    = 200 // jobs a second
	steadyClients = 8
	fullClients   = 16
	pollRate      = 8 // jobs a second for who polls, in the idle measurement: spread evenly over its pauses
)

const latencyAbout = `Time from the acknowledgement of the client's COMMIT to the start of the handler; one clock, since workers and clients are in one process. ` +
	`Idle: one job at a time, the workers asleep. At 200 jobs a second: 8 clients, each at random times. ` +
	`The floor takes one job a notification. ` +
	`At saturation: 16 clients, each with its next job as soon as its last one has started; a worker whose slots were all filled by a look ` +
	`looks again at once, so who polls hardly polls then. ` +
	`"floor" is a bare connection that listens and one prepared statement that reserves from one plain table, with a trigger that always notifies: nothing is folded, concluded, ` +
	`leased or rescued. A price refresh is of a catalog of its own.`

// latencyContenders are those that are woken, and those that poll.
func latencyContenders() (woken, polling []*contender) {
	woken = []*contender{
		{name: "floor", kind: floor},
		{name: "notify when idle", kind: advisory},
		{name: "notify always", kind: always},
		{name: "price refresh, advisory", kind: advisory, tag: "_refresh", refresh: true},
		{name: "price refresh, cte", kind: cte, tag: "_refresh", refresh: true},
	}
	for _, every := range []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second} {
		polling = append(polling, &contender{name: pollName(every), kind: advisory, tag: "_poll" + every.String(), poll: every})
	}
	return woken, polling
}

func latencySteps(r *run) int {
	woken, polling := latencyContenders()
	return r.cfg.Rounds * (2 + 2*(len(woken)+len(polling)) - 1)
}

func measureLatency(ctx context.Context, r *run, s *Section) error {
	s.About = latencyAbout
	woken, polling := latencyContenders()
	all := append(append([]*contender{}, woken...), polling...)
	if err := r.prepare(ctx, all); err != nil {
		return err
	}
	idle, steady, full := results(all), results(all), results(all)
	for n := range r.cfg.Rounds {
		if err := r.idleRound(ctx, n, woken, polling, idle); err != nil {
			return err
		}
		for _, c := range all {
			r.step("latency at %d jobs/s, round %d: %s", steadyRate, n+1, c.name)
			if err := r.turn(ctx, c, steady[c], func(ctx context.Context) (int, time.Duration, error) {
				return r.openLoop(ctx, c, steadyRate, r.cfg.Slice)
			}); err != nil {
				return err
			}
		}
		for _, c := range all[1:] { // the floor can't do more than one at a time
			r.step("latency at saturation, round %d: %s", n+1, c.name)
			if err := r.turn(ctx, c, full[c], func(ctx context.Context) (int, time.Duration, error) {
				return r.closedLoop(ctx, c, fullClients, r.cfg.Slice)
			}); err != nil {
				return err
			}
		}
	}
	reportLatency(s, woken, polling, idle, steady, full)
	return nil
}

// results are one contender's rounds each.
func results(cs []*contender) map[*contender]*rounds {
	m := map[*contender]*rounds{}
	for _, c := range cs {
		m[c] = &rounds{}
	}
	return m
}

// idleRound measures all who are woken sample by sample in turns, then all who poll side by side: they hardly do anything.
func (r *run) idleRound(ctx context.Context, n int, woken, polling []*contender, into map[*contender]*rounds) error {
	r.step("idle latency, round %d: woken by notification, and the floor", n+1)
	if err := r.idleTurn(ctx, woken); err != nil {
		return err
	}
	r.step("idle latency, round %d: polling", n+1)
	err := r.with(ctx, polling, func(ctx context.Context) error {
		if err := r.warm(ctx, polling); err != nil {
			return err
		}
		g, enqueuing := errgroup.WithContext(ctx)
		for _, c := range polling {
			g.Go(func() error {
				_, _, err := r.openLoop(enqueuing, c, pollRate, 2*r.cfg.Slice)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, c := range polling {
			if err := c.starts.settle(ctx, 2*c.poll+time.Second); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for c, res := range into {
		if err := c.collect(ctx, res, 0); err != nil {
			return err
		}
	}
	return nil
}

// idleTurn lets contenders whose workers sleep start one job after the other.
func (r *run) idleTurn(ctx context.Context, cs []*contender) error {
	return r.with(ctx, cs, func(ctx context.Context) error {
		if err := r.warm(ctx, cs); err != nil {
			return err
		}
		return r.place.withConn(ctx, func(conn *pgx.Conn) error { return r.oneByOne(ctx, conn, cs, 3*r.cfg.Slice) })
	})
}

// oneByOne enqueues one job after the other, each after the last one has started, in a new order of contenders each time.
func (r *run) oneByOne(ctx context.Context, conn *pgx.Conn, cs []*contender, d time.Duration) error {
	for _, c := range cs {
		if err := c.rehearse(ctx, conn); err != nil {
			return err
		}
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, i := range rand.Perm(len(cs)) {
			if err := pause(ctx, 10*time.Millisecond+rand.N(10*time.Millisecond)); err != nil {
				return err
			}
			id, err := cs[i].enqueue(ctx, conn)
			if err != nil {
				return fmt.Errorf("enqueue for %s: %w", cs[i].name, err)
			}
			if err := cs[i].starts.await(ctx, id, 5*time.Second); err != nil && !errors.Is(err, errNotStarted) {
				return err
			}
		}
	}
	return nil
}

// turn is one contender's turn under load; load returns how many jobs it has enqueued, and in what time.
func (r *run) turn(ctx context.Context, c *contender, into *rounds, load func(context.Context) (int, time.Duration, error)) error {
	return r.with(ctx, []*contender{c}, func(ctx context.Context) error {
		if err := r.warm(ctx, []*contender{c}); err != nil {
			return err
		}
		n, took, err := load(ctx)
		if err != nil {
			return err
		}
		into.rates = append(into.rates, float64(n)/took.Seconds())
		return c.collect(ctx, into, c.poll+2*time.Second)
	})
}

// openLoop enqueues at a rate, whether the workers keep up or not, for so long. An enqueue that fails is counted.
func (r *run) openLoop(ctx context.Context, c *contender, rate float64, d time.Duration) (n int, took time.Duration, err error) {
	clients := steadyClients
	if rate < steadyRate {
		clients = 1
	} else if rate > 500 {
		clients = fullClients
	}
	return r.clients(ctx, clients, c.rehearse, func(ctx context.Context, conn *pgx.Conn, began time.Time) (n int, err error) {
		end := began.Add(d)
		gap := func() time.Duration {
			return time.Duration(rand.ExpFloat64() * float64(clients) / rate * float64(time.Second))
		}
		for next := time.Now().Add(gap()); next.Before(end); next = next.Add(gap()) {
			if err := pause(ctx, time.Until(next)); err != nil {
				return n, err
			}
			if _, err := c.enqueue(ctx, conn); err == nil {
				n++
			} else if conn.IsClosed() {
				return n, err
			}
		}
		return n, nil
	})
}

// closedLoop lets each client enqueue its next job as soon as its last one has started.
func (r *run) closedLoop(ctx context.Context, c *contender, clients int, d time.Duration) (n int, took time.Duration, err error) {
	return r.clients(ctx, clients, c.rehearse, func(ctx context.Context, conn *pgx.Conn, began time.Time) (n int, err error) {
		for end := began.Add(d); time.Now().Before(end); {
			id, err := c.enqueue(ctx, conn)
			if err != nil {
				if conn.IsClosed() {
					return n, err
				}
				continue
			}
			n++
			if err := c.starts.await(ctx, id, 5*time.Second); err != nil && !errors.Is(err, errNotStarted) {
				return n, err
			}
		}
		return n, nil
	})
}

// clients runs f on so many connections at once and returns the sum of what they return, and how long that took. It began when all
// were connected, and first had been done on each, one after the other.
func (r *run) clients(ctx context.Context, n int, first func(context.Context, *pgx.Conn) error,
	f func(_ context.Context, _ *pgx.Conn, began time.Time) (int, error),
) (sum int, took time.Duration, err error) {
	err = r.place.withConns(ctx, n, func(conns []*pgx.Conn) error {
		for _, conn := range conns {
			if err := first(ctx, conn); err != nil {
				return err
			}
		}
		g, ctx := errgroup.WithContext(ctx)
		counts := make([]int, n)
		began := time.Now()
		for i, conn := range conns {
			g.Go(func() (err error) {
				counts[i], err = f(ctx, conn, began)
				return err
			})
		}
		err := g.Wait()
		took = time.Since(began)
		for _, c := range counts {
			sum += c
		}
		return err
	})
	return sum, took, err
}
