package queue

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// looks decides where a look at the table starts. While somebody's old snapshot pins vacuum, the index of due jobs keeps an
// entry for every job that ever was in it, and a look that starts at the beginning reads them all: at 1,000 jobs a second
// they are half a million after ten minutes. So when full looks have become slow, looks start near the place where the last
// jobs were found. A job whose transaction committed late may lie before it: now and then a look in between starts further
// back, and what lies before that is looked for by LookBack, which holds up no reservation. As long as full looks are
// quick, every look is one.
type looks struct {
	mu      sync.Mutex
	slow    int // full looks in a row that were slow
	place   time.Time
	between time.Time // when a look in between is due
	back    time.Time // when a look back is due
	last    time.Time // where the last look started; zero: at the beginning
}

// look is where one starts.
type look struct {
	from  time.Time // zero: at the beginning
	reach reach
}

type reach int

const (
	near reach = iota
	between
	full
)

const (
	slowLook = 5 * time.Millisecond // a full look is slow from here on; one among live rows alone takes a tenth of that
	slowRow  = 3                    // so many slow ones in a row: one alone may be the machine's fault

	// Looks in between take 1/50 of the time, so that fewer than one job in a hundred meets one: at 1,000 jobs a second with vacuum
	// pinned such a look takes some 8 ms, and most others 1 or 2. Looks back take 1/20. Both come at least so often, which bounds
	// how long a job that committed late waits.
	pausesPerBetween = 50
	pausesPerLook    = 20
	slowestBetween   = 2 * time.Second
	slowestBack      = time.Minute

	// A transaction that takes longer than this from its begin to its commit may write a job before the place …
	lateCommit = 250 * time.Millisecond
	// … and one that takes longer than this, a job before where looks in between start. They start some time before that,
	// since the place moves on until the next of them.
	lateForBetween = 30 * time.Second
	betweenBefore  = lateForBetween + 2*slowestBetween + time.Second
)

// start returns where to look next.
func (l *looks) start() look {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.slow < slowRow || l.place.IsZero():
		return look{reach: full}
	case !time.Now().Before(l.between):
		return look{l.place.Add(-betweenBefore), between}
	}
	return look{l.place, near}
}

// timestamp is where the look starts, for the server.
func (k look) timestamp() pgtype.Timestamptz {
	if k.reach == full {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: k.from, Valid: true}
}

// looked takes note of what a look found, and how long it took to find the first of it or nothing. It returns where the look
// before it started.
func (l *looks) looked(k look, found []Job, took time.Duration) (before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.last = l.last, k.from
	if len(found) > 0 {
		// They are sorted: the first one has waited longest.
		l.place = found[0].RunAfter.Add(-lateCommit)
	}
	if k.reach >= between {
		l.between = time.Now().Add(min(pausesPerBetween*took, slowestBetween))
	}
	if k.reach == full {
		l.backAfter(took)
		l.slow++
		if took < slowLook {
			l.slow = 0
		}
	}
	return before
}

// backAfter says when the next look back is due, after one or a full look that took so long.
func (l *looks) backAfter(took time.Duration) {
	l.back = time.Now().Add(min(max(pausesPerLook*took, slowestBetween), slowestBack))
}

// restart makes the next look reach further than the last jobs.
func (l *looks) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.between = time.Time{}
}

// unseen shortens a wait to the next look in between, since something may be due that this look did not see.
func (l *looks) unseen(k look, wait time.Duration) time.Duration {
	if k.reach != near {
		return wait
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := max(time.Until(l.between), time.Millisecond)
	if wait < 0 {
		return left
	}
	return min(wait, left)
}

// untilBack is how long until a look back is due, 0 when none is needed.
func (l *looks) untilBack() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow < slowRow {
		return 0
	}
	return max(time.Until(l.back), time.Millisecond)
}

// lookBack says whether a look back is due, and puts off the next one, in case this one fails.
func (l *looks) lookBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.slow < slowRow || now.Before(l.back) {
		return false
	}
	l.back = now.Add(slowestBack)
	return true
}

// lookedBack takes note of a look back up to edge, which found a job that is due since then, or none. It says whether the next
// look starts at that job, which those before it did not reach.
func (l *looks) lookedBack(edge time.Time, due *time.Time, took time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backAfter(took)
	switch {
	case due == nil:
		if took < slowLook { // one that finds a job may not have got to the dead entries
			l.slow = 0
		}
		// Who finds nothing, since others take all jobs, has no other way to move on.
		if l.place.Before(edge) {
			l.place = edge
		}
		return false
	case l.place.IsZero() || due.Before(l.place):
		l.place = *due
		return true
	}
	return false // it is on the way
}
