package worker

import (
	"errors"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// Interrupts when idle, polling when busy. A commit notifies only while some worker wants that; so a worker asks for it
// before it sleeps, and takes the wish back while it has work anyway. Both cost a statement, the falling asleep three, so
// neither is done for a moment's sake.
const (
	// Busy: the slots are full, or every look finds something, for this long …
	busyAfter = 50 * time.Millisecond
	// … or notifications come at such a rate (wakes within the time), or at less while half of the time goes into asking for
	// what they tell of: the server, or the processor, is at its limit already.
	busyWakes  = 100
	busyWithin = 100 * time.Millisecond
	busyAsking = busyWithin / 2
	fewWakes   = busyWakes / 5
	// Idle again: looks have found nothing for this long, with such pauses between them.
	calmAfter = 20 * time.Millisecond
	calmPause = 2 * time.Millisecond
	// … or all looks within busyWithin together have found less than this, and the last one less than there are free slots: so few
	// are better told of one by one.
	calmJobs = 60
	// A rest of this length is one: then the loop is not busy without a break.
	restEnough = time.Millisecond
	// A barrier that could not be had is tried again after this, and a look made each time.
	barrierAgain = 500 * time.Millisecond
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
	anew       bool      // which is to be said again: what commits know of the hands may be old
	handAgain  time.Time // not before
	doubted    time.Time // when a job that was handed over had become somebody else's
	wakes      int       // by notifications and jobs handed over, since wakesFrom
	wakesFrom  time.Time
	asking     time.Duration // for what they told of, since wakesFrom
	found      int           // by looks without the wish, since foundFrom
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
	if causes.Has(listen.Notified) {
		q.woken(now)
	}
}

// woken counts a job that was told of.
func (q *sleepiness) woken(now time.Time) {
	q.wakes++
	if now.Sub(q.wakesFrom) > busyWithin {
		q.wakes, q.asking, q.wakesFrom = 0, 0, now
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
	return q.wakes >= q.pace.busyWakes || q.wakes >= fewWakes && q.asking >= busyAsking
}

func (q *sleepiness) isBusy() bool {
	return q.often() || !q.busySince.IsZero() && time.Since(q.busySince) >= q.pace.busyAfter
}

// busy goes on from a look that found all that it asked for.
func (r *reserving) busy() time.Duration {
	if r.quiet.isBusy() {
		r.rise()
		if r.quiet.wants {
			r.stopWanting()
		}
	}
	return 0
}

// full goes on while there is no free slot: it leaves the seat, and then takes the wish back.
func (r *reserving) full() time.Duration {
	q := &r.quiet
	now := time.Now()
	if q.fullSince.IsZero() {
		q.fullSince = now
	}
	if q.busySince.IsZero() {
		q.busySince = now
	}
	if r.cfg.Seat != nil && q.sits {
		left := q.pace.busyAfter - now.Sub(q.busySince)
		switch {
		case r.place.crowded() && q.fresh:
			left = 0
		case r.place.crowded():
			left = min(left, fullAfter-now.Sub(q.fullSince))
		}
		if left > 0 {
			return left
		}
		r.rise()
	}
	if !q.wants {
		return untilWoken
	}
	if !q.isBusy() {
		return q.pace.busyAfter - now.Sub(q.busySince)
	}
	r.stopWanting()
	return untilWoken
}

// stopWanting takes the wish back because there is work anyway. From here on nobody wakes us, so the next free slot looks
// unasked; that holds also when the statement fails, since it may have been committed.
func (r *reserving) stopWanting() (ok bool) {
	ok = r.takeBack()
	r.quiet.emptySince, r.quiet.calm = time.Time{}, false
	r.hungry = true
	return ok
}

// takeBack takes the wish back.
func (r *reserving) takeBack() (ok bool) {
	r.quiet.wants, r.quiet.armed, r.quiet.wakes, r.quiet.asking = false, false, 0, 0
	r.quiet.found, r.quiet.foundFrom = 0, time.Now()
	r.stats.toggled()
	defer r.wished()
	if err := r.wish(false, false); err != nil {
		r.log.Debug().Err(err).Msg("the wish to be notified could not be taken back: some commits notify in vain")
		return false
	}
	r.quiet.told = false
	return true
}

// wish says what commits shall do for this worker: tell it of jobs, and hand it some.
func (r *reserving) wish(told, handed bool) error {
	q := &r.quiet
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	refused, err := r.store.WantNotify(ctx, told, handed)
	if errors.Is(err, queue.ErrUnregistered) && told { // somebody thought us dead
		if err = r.store.Register(ctx, r.cfg.Info); err == nil {
			refused, err = r.store.WantNotify(ctx, told, handed)
		}
	}
	q.hands = handed && refused == nil && err == nil
	if err == nil {
		q.anew, r.heldAt = false, time.Now()
	}
	if refused != nil {
		q.handAgain = time.Now().Add(cannotBeHanded)
	}
	if handed && r.handing.changed(refused) && refused != nil {
		r.log.Warn().Err(refused).Msg("commits can't hand jobs to this worker: it looks for each")
	}
	return err
}

// wantsHands says whether commits should hand this worker its jobs: it has to hear of them.
func (r *reserving) wantsHands(hearing listen.Hearing) bool {
	return r.cfg.TakesHanded && hearing == listen.Listening && !time.Now().Before(r.quiet.handAgain)
}

// fallAsleep goes on from a look after which nothing is known to be due: to sleep if a commit from now on rings the bell,
// else one step further towards that.
func (r *reserving) fallAsleep(found int) time.Duration {
	q := &r.quiet
	if q.armed && found > 0 && q.isBusy() {
		r.stopWanting()
		return 0
	}
	if !q.wants {
		if pause := r.calmDown(found); pause >= 0 {
			return pause
		}
	}
	hearing := r.sit()
	switch {
	case hearing == listen.Reserve: // others hear; when it is this one's turn, the bell rings
		if q.told {
			r.takeBack()
		}
		r.hungry, q.trusts = false, true
		return untilWoken
	case q.armed && (q.hands && hearing != listen.Listening || (!q.hands || q.anew) && r.wantsHands(hearing)):
		began := time.Now()
		lost := q.hands && hearing != listen.Listening
		err := r.wish(true, !lost)
		if lost {
			r.unheard()
		}
		if pause, failed := r.failed(&r.dozing, err, began, "ask for jobs to be handed over"); failed {
			return pause
		}
		r.hungry = false
		return untilWoken
	case q.armed:
		r.hungry = false
		return untilWoken
	}
	if !q.wants {
		began := time.Now()
		q.told = true
		err := r.wish(true, r.wantsHands(hearing))
		if pause, failed := r.failed(&r.dozing, err, began, "ask for notifications"); failed {
			return pause
		}
		r.stats.toggled()
		r.wished()
		q.wants, q.barrierAt = true, time.Time{}
	}
	if left := time.Until(q.barrierAt); left > 0 {
		return left
	}
	began := time.Now()
	ctx, done := r.statement(r.stop, r.end)
	ok, err := r.store.Barrier(ctx)
	done()
	if pause, failed := r.failed(&r.dozing, err, began, "wait for the commits under way"); failed {
		return pause
	}
	if !ok {
		// Somebody keeps a transaction open that has decided already whether to notify: its commit may not ring.
		r.stats.barrierMissed()
		q.barrierAt = time.Now().Add(barrierAgain)
		return barrierAgain
	}
	q.armed = true
	return 0 // the look that sees what was committed before the barrier
}

// calmDown says how long to wait for the next look while work may go on coming: negative when it is time to fall asleep.
func (r *reserving) calmDown(found int) time.Duration {
	q := &r.quiet
	if now := time.Now(); now.Sub(q.foundFrom) >= busyWithin {
		few := q.found < calmJobs && !q.foundFrom.IsZero()
		q.found, q.foundFrom = 0, now
		if few {
			return -1
		}
	}
	if found > 0 {
		return 0
	}
	if q.emptySince.IsZero() {
		q.emptySince = time.Now()
	}
	if q.calm || time.Since(q.emptySince) >= q.pace.calmAfter {
		return -1
	}
	return calmPause
}

// leave takes the wish back for good: a worker that drains needs no notifications.
func (r *reserving) leave() {
	defer r.rise()
	if r.end.Err() != nil || r.looking.fails > 0 {
		r.quiet.hands = false
		return
	}
	handed := r.cfg.TakesHanded && (r.quiet.told || r.handovers.any())
	if r.quiet.wants || handed {
		if ok := r.stopWanting(); ok && r.cfg.TakesHanded { // else nothing answers
			r.returnHanded()
		}
	}
}
