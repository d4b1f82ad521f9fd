package load

import (
	"context"
	"time"
)

// pacer keeps a file's own timing, compressed. The zero value lets everything pass at once.
type pacer struct {
	speed float64
	first time.Time // the file's
	begun time.Time // ours
}

// wait returns when what was published at t is due, false when ctx has ended.
func (p *pacer) wait(ctx context.Context, t time.Time) bool {
	if p.speed <= 0 {
		return ctx.Err() == nil
	}
	if p.first.IsZero() {
		p.first, p.begun = t, time.Now()
	}
	d := time.Until(p.begun.Add(time.Duration(float64(t.Sub(p.first)) / p.speed)))
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
