package queue

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// looks decides where a look at the table starts. While somebody's old snapshot pins vacuum, the index of due jobs keeps an
// entry for every job that ever was in it, and a look that starts at the beginning reads them all: at 1,000 jobs a second
// they are half a million after ten minutes. So when full looks have become slow, looks start near the place where the last
// jobs were found. A job whose transaction committed late may lie before it: now and then LookBetween looks further back, and
// LookBack for what lies before that, which hold up no reservation. As long as full looks are quick, every look is one.
type looks struct {
	mu      sync.Mutex
	slow    int // full looks in a row that were slow
	place   time.Time
	kept    bool      // a job was found at the place since the last look started: one under way doesn't move it on
	further bool      // the next look is one in between
	between turn      // of LookBetween
	back    turn      // of LookBack
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

	// A transaction that takes longer than this from its begin to its commit may write a job before the place. The jobs of that
	// time are dead entries that each look near it reads: at 1,000 jobs a second a hundred, where vacuum is pinned …
	lateCommit = 100 * time.Millisecond
	// … and one that takes longer than this, a job before where looks in between start. They start some time before that,
	// since the place moves on until the next of them.
	lateForBetween = 30 * time.Second
	betweenBefore  = lateForBetween + 2*slowestBetween + time.Second
)

// start returns where to look next.
func (l *looks) start() look {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = false
	switch {
	case l.slow < slowRow || l.place.IsZero():
		return look{reach: full}
	case l.further:
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

// looked takes note of what a look found, whether it told what comes next, and how long it took to find the first of it or nothing. It
// returns where the look before it started.
func (l *looks) looked(k look, found []Job, told bool, took time.Duration) (before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.last = l.last, k.from
	if len(found) > 0 && !l.kept {
		// They are sorted: the first one has waited longest.
		l.place = found[0].RunAfter.Add(-lateCommit)
	}
	l.back.wanted = true
	switch k.reach {
	case near:
		l.between.wanted = true
	case between:
		l.further = false
		l.between.seen(betweenAfter(took))
		l.between.wanted = !told // it has not asked for leases
	case full:
		l.further = false
		l.between.seen(betweenAfter(took))
		l.back.at = time.Now().Add(backAfter(took))
		l.slow++
		if took < slowLook {
			l.slow = 0
		}
	}
	return before
}

// restart makes the next look reach further than the last jobs.
func (l *looks) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.further = true
}
