package worker

import (
	"time"

	"notifyworker/internal/listen"
)

// Interrupts when idle, polling when busy. A commit notifies only while some worker wants that; so a worker asks for it
// before it sleeps, and takes the wish back while it has work anyway. Both cost a statement, the falling asleep three, so
// neither is done for a moment's sake.
const (
	// Busy: the slots are full, or every look finds something, for this long …
	busyAfter = 50 * time.Millisecond
	// … or notifications come at such a rate (wakes within the time), or at less while most of the time goes into asking for
	// what they tell of: the server, the network or the processor is at its limit already. One call that takes long is a stall, and
	// counts as one that takes no longer than this.
	busyWakes  = 100
	busyWithin = 100 * time.Millisecond
	busyAsking = busyWithin * 3 / 5
	fewWakes   = busyWakes / 5
	longAsking = busyAsking / 6
	// … or this much, when there was hardly a break in between: then they come faster than they can be asked for one by one, and many clients
	// that could enqueue at once are held at that rate.
	noBreak = busyWithin * 3 / 10
	// … or commits queue up to hand over their jobs. Anybody may send that they do, so as many jobs must have been handed over within the
	// time; and when that was soon over, the same is not worth to rise for, until a while later.
	manyHanded = 4
	manySoon   = 2 * busyWithin
	manyAgain  = time.Second
	// … or nearly all of the time goes into asking, however few jobs that is about: they pile up. Here one call counts as half of the time
	// at most.
	noTimeLeft = busyWithin * 9 / 10
	halfOfTime = busyWithin / 2
	// Idle again: looks have found nothing for this long, with such pauses between them.
	calmAfter = 20 * time.Millisecond
	calmPause = 2 * time.Millisecond
	calmLooks = 8 // or as long as so many take, where that is longer
	// … or all looks within busyWithin together have found less than this, and the last one less than there are free slots: so few
	// are better told of one by one, unless to ask for each would take half of what makes it busy: or it would rise and fall asleep for ever.
	calmJobs   = 60
	calmAsking = busyAsking / 2
	// A rest of this length is one: then the loop is not busy without a break.
	restEnough = time.Millisecond
)

// pace is when a worker goes from idle to busy and back; BenchmarkPace shows what other values do.
type pace struct {
	busyAfter time.Duration
	busyWakes int
	calmAfter time.Duration
}

func usualPace() pace { return pace{busyAfter, busyWakes, calmAfter} }

// sleepiness is what the loop knows of its own sleep.
type sleepiness struct {
	pace pace

	wants  bool // wants_notify as committed; false also when that is uncertain
	armed  bool // and the barrier was passed since: no commit from now on can fail to ring
	told   bool // the table may say that this worker wants to be told
	sits   bool // has a seat or waits for one, as a listener does from the beginning
	trusts bool // went to sleep without a seat, since others listen
	fresh  bool // the last look came with the seat: what it found may be more than this worker can take

	fullSince  time.Time // no free slot since then; zero: there is one
	busySince  time.Time // work without a rest since then; zero: not busy
	emptySince time.Time // without the wish: nothing found since then; zero: the last look found something
	calm       bool      // without the wish: calmAfter need not be waited for
	barrierAt  time.Time // not before
	hands      bool      // and that commits hand it jobs
	handed     bool      // which they may have done some time: one under way may do so yet
	anew       bool      // which is to be said again: what commits know of the hands may be old
	handAgain  time.Time // not before
	doubted    time.Time // when a job that was handed over had become somebody else's
	many       time.Time // when it rose because commits queued up; zero: not for that
	noMany     time.Time // until then it doesn't
	wakes      int       // by notifications and jobs handed over, since wakesFrom
	taken      int       // of them jobs handed over
	wakesFrom  time.Time
	asking     time.Duration // for what they told of, since wakesFrom; a stall counts little
	taking     time.Duration // the same; a stall counts
	askedTill  time.Time     // the last one's end
	found      int           // by looks without the wish, since foundFrom
	looks      int           // since then
	looking    time.Duration // for how long
	look       time.Duration // how long the last call took
	foundFrom  time.Time
}

// distrust forgets the wish: nobody may have seen it for a while.
func (q *sleepiness) distrust() {
	q.wants, q.armed, q.told, q.calm, q.hands = false, false, true, true, false
}

// looked takes note of a look that found so much for these causes.
func (q *sleepiness) looked(found int, causes listen.Causes) {
	now := time.Now()
	q.found += found
	if found > 0 {
		q.emptySince, q.calm = time.Time{}, false
		if q.busySince.IsZero() {
			q.busySince = now
		}
	}
	q.fresh = causes.Has(listen.Connected) || causes.Has(listen.Seated)
	if causes.Has(listen.Notified) || causes.Has(listen.Many) && found > 0 {
		q.woken(now)
	}
}

// tookHanded takes note of a job that was handed over, and asked for at that time.
func (q *sleepiness) tookHanded(asked time.Time) {
	q.woken(asked)
	q.taken++
}

// tookBack takes note of jobs that were handed over and could not be taken one by one.
func (q *sleepiness) tookBack(jobs int, asked time.Time) {
	q.window(asked)
	q.taken += jobs
}

// toldOfMany takes note that somebody says that commits wait for each other to hand over their jobs.
func (q *sleepiness) toldOfMany(now time.Time) {
	if q.hands && q.taken >= manyHanded && now.Sub(q.wakesFrom) <= busyWithin && !now.Before(q.noMany) {
		q.wakes, q.many = max(q.wakes, q.pace.busyWakes), now
	}
}

// woken counts a job that was told of.
func (q *sleepiness) woken(now time.Time) {
	q.window(now)
	q.wakes++
}

// asked counts the time that a call took which asked for such jobs, and began at that time.
func (q *sleepiness) asked(at time.Time, took time.Duration) {
	q.window(at)
	q.look = min(took, halfOfTime)
	q.taking += q.look
	took = min(took, longAsking)
	q.asking += took
	if till := at.Add(q.look); till.After(q.askedTill) { // the listener's calls and the loop's overlap
		q.askedTill = till
	}
	q.looks, q.looking = q.looks+1, q.looking+took
}

// window begins to count anew when the time is over.
func (q *sleepiness) window(now time.Time) {
	if now.Sub(q.wakesFrom) > busyWithin {
		q.wakes, q.taken, q.asking, q.taking, q.wakesFrom = 0, 0, 0, 0, now
	}
}

// rested takes note of a rest with nothing known to be due.
func (q *sleepiness) rested(d time.Duration) {
	if d >= restEnough {
		q.busySince = time.Time{}
	}
}

// often says whether jobs come at such a rate that it is cheaper to look for them.
func (q *sleepiness) often() bool {
	inARow := q.asking >= noBreak && q.asking >= q.askedTill.Sub(q.wakesFrom)*9/10
	return q.wakes >= q.pace.busyWakes || q.wakes >= fewWakes && (q.asking >= busyAsking || inARow) || q.taking >= noTimeLeft
}

func (q *sleepiness) isBusy() bool {
	return q.often() || !q.busySince.IsZero() && time.Since(q.busySince) >= q.pace.busyAfter
}

// calmedDown takes note that it is time to fall asleep.
func (q *sleepiness) calmedDown(now time.Time) {
	q.busySince = time.Time{} // what comes now is told of: it is no longer work without a rest
	if !q.many.IsZero() && now.Sub(q.many) < manySoon {
		q.noMany = now.Add(manyAgain)
	}
	q.many = time.Time{}
}

// recount begins to count anew what looks without the wish find.
func (q *sleepiness) recount(now time.Time) { q.found, q.looks, q.looking, q.foundFrom = 0, 0, 0, now }

// calmDown takes note of a look without the wish that found so much, and says how long to wait for the next one: negative when it is
// time to fall asleep.
func (q *sleepiness) calmDown(found int, now time.Time) time.Duration {
	if now.Sub(q.foundFrom) >= busyWithin {
		oneByOne := q.looking / time.Duration(max(q.looks, 1)) * time.Duration(q.found)
		few := q.found < calmJobs && oneByOne < calmAsking && !q.foundFrom.IsZero()
		q.recount(now)
		if few {
			return -1
		}
	}
	if found > 0 {
		return 0
	}
	if q.emptySince.IsZero() {
		q.emptySince = now
	}
	if q.calm || now.Sub(q.emptySince) >= max(q.pace.calmAfter, calmLooks*q.look) {
		return -1
	}
	return calmPause
}
