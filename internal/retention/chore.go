package retention

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"notifyworker/internal/queue"

	"github.com/rs/zerolog"
)

// Config is complete when Store is set; every other zero value is a working default, and the zero Keep keeps everything.
type Config struct {
	Store interface {
		Purge(ctx context.Context, r queue.Retention, n int) (queue.Purged, error)
	}
	Keep  queue.Retention
	Every time.Duration // between rounds; 0 means 1m
	Batch int           // jobs of one outcome in a transaction; 0 means 500
	Rest  time.Duration // between two batches, at least; 0 means 50ms
	Log   zerolog.Logger
}

// Chore removes what is old. Make it by New; Run it once.
type Chore struct {
	cfg             Config
	jobs, refreshes atomic.Int64
	failing         bool // only Run
}

// New returns a Chore, or what is wrong with what is to be kept.
func New(cfg Config) (*Chore, error) {
	if err := cfg.Keep.Validate(); err != nil {
		return nil, err
	}
	if cfg.Every == 0 {
		cfg.Every = time.Minute
	}
	if cfg.Batch == 0 {
		cfg.Batch = 500
	}
	if cfg.Rest == 0 {
		cfg.Rest = 50 * time.Millisecond
	}
	return &Chore{cfg: cfg}, nil
}

// Purged is what was removed so far.
func (c *Chore) Purged() queue.Purged {
	return queue.Purged{Jobs: c.jobs.Load(), Refreshes: c.refreshes.Load()}
}

// Run makes a round now and then until ctx ends, and returns nil then. Trouble with the database is logged once, and met by the
// next round. Where everything is kept it has nothing to do and returns at once.
func (c *Chore) Run(ctx context.Context) error {
	if c.cfg.Keep == (queue.Retention{}) {
		return nil
	}
	// Spread, so that workers that started together don't remove together.
	for sleep(ctx, c.cfg.Every/2+rand.N(c.cfg.Every/2+1)) {
		c.round(ctx)
	}
	return nil
}

// round removes batches until one of them is not full.
func (c *Chore) round(ctx context.Context) {
	var sum queue.Purged
	began := time.Now()
	for {
		at := time.Now()
		p, err := c.cfg.Store.Purge(ctx, c.cfg.Keep, c.cfg.Batch)
		sum.Jobs, sum.Refreshes = sum.Jobs+p.Jobs, sum.Refreshes+p.Refreshes
		c.jobs.Add(p.Jobs)
		c.refreshes.Add(p.Refreshes)
		if ctx.Err() != nil {
			break
		}
		c.note(err)
		full := int64(c.cfg.Batch)
		if err != nil || p.Jobs < full && p.Refreshes < full || !sleep(ctx, max(c.cfg.Rest, time.Since(at))) {
			break
		}
	}
	if sum.Jobs+sum.Refreshes > 0 {
		c.cfg.Log.Info().Int64("jobs", sum.Jobs).Int64("refreshes", sum.Refreshes).Dur("took", time.Since(began)).Msg("old jobs removed")
	}
}

// note says once that it fails, and once that it works again.
func (c *Chore) note(err error) {
	if (err != nil) == c.failing {
		return
	}
	if c.failing = err != nil; c.failing {
		c.cfg.Log.Warn().Err(err).Str("advice", queue.Advice(err)).Msg("old jobs can't be removed: trying again")
	} else {
		c.cfg.Log.Info().Msg("old jobs can be removed again")
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
