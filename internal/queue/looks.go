package queue

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// looks decides where a look at the table starts. While somebody's old snapshot pins vacuum, the index of due jobs keeps an
// entry for every job that ever was in it, and a look that starts at the beginning reads them all: at 1,000 jobs a second
// they are half a million after ten minutes. So when full looks have become slow, most looks start a little before the
// place where the last jobs were found. A job whose transaction committed late may lie before that place: a full look
// follows now and then, so rarely that full looks take a twentieth of the time, but at least every slowestFull; and always
// before a worker sleeps. As long as full looks are quick, every look is one.
type looks struct {
	mu    sync.Mutex
	slow  int // full looks in a row that were slow
	place time.Time
	next  time.Time // when a full look is due
}

const (
	slowLook = 5 * time.Millisecond // a full look is slow from here on; one among live rows alone takes a tenth of that
	slowRow  = 3                    // so many slow ones in a row: one alone may be the machine's fault

	pausesPerLook = 20              // full looks take 1/20 of the time
	slowestFull   = 2 * time.Second // and come at least that often, which bounds how long a job that committed late waits

	// A transaction that takes longer than this from its begin to its commit may write a job before the place.
	lateCommit = 250 * time.Millisecond
)

// from returns where to start, and whether that is the beginning.
func (l *looks) from() (_ pgtype.Timestamptz, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow < slowRow || l.place.IsZero() || !time.Now().Before(l.next) {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, true
	}
	return pgtype.Timestamptz{Time: l.place, Valid: true}, false
}

// looked takes note of what a look found, and how long it took to find the first of it or nothing.
func (l *looks) looked(found []Job, full bool, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(found) > 0 {
		// They are sorted: the first one has waited longest.
		l.place = found[0].RunAfter.Add(-lateCommit)
	}
	if !full {
		return
	}
	if took < slowLook {
		l.slow = 0
		return
	}
	l.slow++
	l.next = time.Now().Add(min(pausesPerLook*took, slowestFull))
}

// restart makes the next look a full one.
func (l *looks) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = time.Time{}
}

// unseen shortens a wait to the next full look, since something may be due that this look did not see.
func (l *looks) unseen(wait time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := max(time.Until(l.next), time.Millisecond)
	if wait < 0 {
		return left
	}
	return min(wait, left)
}
