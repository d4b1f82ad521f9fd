package observe

import (
	"context"
	"sync"
	"time"

	"notifyworker/internal/queue"
)

const (
	pinnedAgain = 10 * time.Minute // between two warnings of the same snapshot
	pinsAgain   = 20 * time.Second // between two looks
)

// pins remembers the oldest snapshot of the last look: a role that may not see its age finds out how long it has been there.
type pins struct {
	mu    sync.Mutex
	pid   int
	of    string // horizon
	seen  time.Time
	warns bool      // the last LookForPins found one that is too old
	told  time.Time // of this one
	asked time.Time
}

func (p *pins) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked.IsZero() && now.Sub(p.asked) < pinsAgain {
		return false
	}
	p.asked = now
	return true
}

// age is how old a snapshot is at least; 0 when there is none.
func (p *pins) age(s queue.Snapshot, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.PID != p.pid || s.Horizon != p.of || p.seen.IsZero() {
		p.pid, p.of, p.seen, p.told = s.PID, s.Horizon, now, time.Time{}
	}
	if s.Horizon == "" {
		return 0
	}
	return max(s.Age, now.Sub(p.seen))
}

// tell says whether to warn, or to say that it is over.
func (p *pins) tell(old bool, now time.Time) (warn, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	over = p.warns && !old
	p.warns = old
	if warn = old && now.Sub(p.told) >= pinnedAgain; warn {
		p.told = now
	}
	return warn, over
}

// LookForPins warns of a snapshot so old that dead rows pile up behind it, and names whose it is. Call it now and then: it asks
// at most every pinsAgain, and waits no longer than askWithin.
func (d *Database) LookForPins(ctx context.Context) {
	p := d.parts.Load()
	if p == nil || p.Store == nil {
		return
	}
	if !d.pins.due(time.Now()) {
		return
	}
	ctx, done := context.WithTimeout(ctx, askWithin)
	defer done()
	pressure, err := p.Store.Pressure(ctx)
	if err != nil {
		d.log.Debug().Err(err).Msg("the database did not say who pins vacuum")
		return
	}
	now, s := time.Now(), pressure.Oldest
	age := d.pins.age(s, now)
	warn, over := d.pins.tell(age >= d.o.cfg.PinnedAfter, now)
	switch {
	case warn:
		e := d.log.Warn().Int("pid", s.PID).Str("application", s.Application).Str("user", s.User).Str("state", s.State).
			Dur("age", age).Int64("transactions", s.XIDs)
		if s.State == "" {
			e = e.Str("advice", "the age is what this worker has seen of it: grant pg_read_all_stats to its role to see more")
		}
		e.Msg("a session keeps vacuum from removing dead rows: reservations get slower until its transaction ends")
	case over:
		d.log.Info().Msg("vacuum can remove dead rows again")
	}
}
