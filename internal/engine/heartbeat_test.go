package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/engine"
)

func TestALostRefreshIsCutOffByTheHeartbeat(t *testing.T) {
	b := newBench(t)
	g := newGate()
	cause := make(chan error, 1)
	e := b.start(&fake{do: func(ctx context.Context, c engine.Chunk) error {
		err := g.pass(ctx, c)
		cause <- err
		return err
	}}, func(c *engine.Config) { c.Lease = short })
	_, err := e.Submit(context.Background(), b.job("c", `["p1"]`))
	must(t, err)
	g.wait(t)
	before := value[time.Time](b, `SELECT lease_expires_at FROM notifyworker.refreshes`)
	b.eventually(`SELECT lease_expires_at > $1 FROM notifyworker.refreshes`, before) // a heartbeat
	b.exec(`UPDATE notifyworker.refreshes SET lock_token = gen_random_uuid()`)
	select {
	case err := <-cause:
		if !errors.Is(err, engine.ErrRefreshLost) {
			t.Errorf("cut off because of %v", err)
		}
	case <-time.After(soon):
		t.Fatal("no heartbeat has cut it off")
	}
	waitFor(t, func() bool { return e.Stats().Places == 0 })
}

func TestAHeartbeatPassesOverALockedRow(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	g := newGate()
	e := b.start(&fake{do: g.pass}, func(c *engine.Config) { c.Lease = 4 * short })
	defer close(g.open)
	locked, err := e.Submit(ctx, b.job("c", `["p1"]`))
	must(t, err)
	other, err := e.Submit(ctx, b.job("d", `["p1"]`))
	must(t, err)
	psql := b.db.Conn(t)
	_, err = psql.Exec(ctx, fmt.Sprintf(`BEGIN; SELECT FROM notifyworker.refreshes WHERE id = %d FOR UPDATE`, locked))
	must(t, err)
	before := value[time.Time](b, `SELECT lease_expires_at FROM notifyworker.refreshes WHERE id = $1`, other)
	waitFor(t, func() bool {
		return e.Stats().Lost > 0 || value[bool](b, `SELECT lease_expires_at > $2 FROM notifyworker.refreshes WHERE id = $1`, other, before)
	})
	if s := e.Stats(); s.Lost != 0 || s.Running != 2 {
		t.Errorf("stats %+v", s)
	}
}

// The row is locked for longer than the lease: another may have it as soon as the lock is gone, so nothing is done for it here.
func TestALeaseThatNoHeartbeatExtendsEndsHereToo(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	causes := map[string]chan error{"locked": make(chan error, 1), "other": make(chan error, 1)}
	g := newGate()
	e := b.start(&fake{do: func(ctx context.Context, c engine.Chunk) error {
		err := g.pass(ctx, c)
		causes[c.CatalogID] <- err
		return err
	}}, func(c *engine.Config) { c.Lease = short })
	locked, err := e.Submit(ctx, b.job("locked", `["p1"]`))
	must(t, err)
	other, err := e.Submit(ctx, b.job("other", `["p1"]`))
	must(t, err)
	g.wait(t)
	g.wait(t)
	psql := b.begin(`SELECT FROM notifyworker.refreshes WHERE id = $1 FOR UPDATE`, locked)
	waitFor(t, func() bool { // until the heartbeats of two more leases have come
		return len(causes["locked"]) > 0 || value[bool](b, `SELECT o.lease_expires_at > l.lease_expires_at + $3 * interval '1 s'
			FROM notifyworker.refreshes o, notifyworker.refreshes l WHERE o.id = $1 AND l.id = $2`, other, locked, 3*short.Seconds())
	})
	select {
	case err := <-causes["locked"]:
		if err == nil || !strings.Contains(err.Error(), "no heartbeat") {
			t.Errorf("cut off because of %v", err)
		}
	default:
		t.Error("it goes on under a lease that has ended")
	}
	must(t, psql.Rollback(ctx))
	close(g.open)
	if err := <-causes["other"]; err != nil {
		t.Errorf("the other was cut off because of %v", err)
	}
}
