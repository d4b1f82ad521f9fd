package queue

import "time"

const (
	// Looks in between take 1/50 of the time at most, looks back 1/20. Both come at least so often while they are wanted, which
	// bounds how long a job that committed late waits, and no more often than somebody would notice.
	pausesPerBetween = 50
	pausesPerBack    = 20
	quickestBetween  = 200 * time.Millisecond
	slowestBetween   = 2 * time.Second
	quickestBack     = 2 * time.Second
	slowestBack      = time.Minute
)

func betweenAfter(took time.Duration) time.Duration {
	return min(max(pausesPerBetween*took, quickestBetween), slowestBetween)
}

func backAfter(took time.Duration) time.Duration {
	return min(max(pausesPerBack*took, quickestBack), slowestBack)
}

// turn is when a look of one kind is due that goes on beside Reserve's.
type turn struct {
	at     time.Time
	wanted bool // a look since the last of them began may have passed over what they reach
}

// when is when it is due, the zero time when it is not wanted.
func (t *turn) when() time.Time {
	if !t.wanted {
		return time.Time{}
	}
	return t.at
}

// seen takes note that something else has seen what it reaches, and that the next one need not come before a pause.
func (t *turn) seen(pause time.Duration) { t.wanted, t.at = false, time.Now().Add(pause) }

func (l *looks) turn(r reach) *turn {
	if r == between {
		return &l.between
	}
	return &l.back
}

// whenBehind is when a look of this reach beside Reserve's is due, the zero time when none is needed.
func (l *looks) whenBehind(r reach) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow < slowRow {
		return time.Time{}
	}
	return l.turn(r).when()
}

// behind returns the look of this reach that is due now beside Reserve's, and the due time up to which it goes, zero for
// lateForBetween ago. A Reserve that ends from here on may miss what this one misses, too, and makes another one wanted. The
// next one is put off, in case this one does not return.
func (l *looks) behind(r reach) (k look, to time.Time, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turn(r)
	if l.slow < slowRow || !t.wanted || time.Now().Before(t.at) {
		return look{}, time.Time{}, false
	}
	if r == full {
		t.seen(slowestBack)
		return look{reach: full}, time.Time{}, true
	}
	t.seen(slowestBetween)
	return look{l.place.Add(-betweenBefore), between}, l.place, true
}

// failed makes a look wanted again that has seen nothing.
func (l *looks) failed(r reach) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(r).wanted = true
}

// lookedBehind takes note of a look up to edge beside Reserve's, which found a job that is due since then, or none. It says
// whether the next Reserve starts at that job, which those before it did not reach.
func (l *looks) lookedBehind(r reach, edge time.Time, due *time.Time, took time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r == between {
		l.between.at = time.Now().Add(betweenAfter(took))
	} else {
		l.back.at = time.Now().Add(backAfter(took))
		if due == nil {
			l.nothingBack(edge, took)
		}
	}
	if due == nil || !l.place.IsZero() && !due.Before(l.place) {
		return false // or it is on the way
	}
	l.place, l.kept = *due, true
	return true
}

// nothingBack goes on from a look back that found nothing.
func (l *looks) nothingBack(edge time.Time, took time.Duration) {
	if took < slowLook { // one that finds a job may not have got to the dead entries
		l.slow = 0
	}
	// Who finds nothing, since others take all jobs, has no other way to move on.
	if !l.kept && l.place.Before(edge) {
		l.place = edge
	}
}
