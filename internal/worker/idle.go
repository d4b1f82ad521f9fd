package worker

import (
	"context"
	"errors"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// A barrier that could not be had is tried again after this, and a look made each time.
const barrierAgain = 500 * time.Millisecond

// busy goes on from a look that found all that it asked for.
func (r *reserving) busy() time.Duration {
	if r.quiet.isBusy() {
		r.rise()
		if r.quiet.wants || r.quiet.told {
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
	if !q.wants && !q.told {
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
	r.quiet.wants, r.quiet.armed, r.quiet.wakes, r.quiet.taken, r.quiet.asking, r.quiet.taking = false, false, 0, 0, 0, 0
	if r.quiet.hands && r.cfg.Seat != nil && r.cfg.Seat.Hearing() != listen.Listening { // it has not heard of the last ones, and nobody takes them over
		defer r.doubtHands()
	}
	r.quiet.recount(time.Now())
	r.stats.toggled()
	defer r.wished()
	if err := r.wish(false, false); err != nil {
		r.log.Debug().Err(err).Msg("the wish to be notified could not be taken back: some commits notify in vain")
		return false
	}
	r.quiet.told = false
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	r.nobodySleeps(ctx)
	return true
}

// nobodySleeps lets commits know that no worker wants to be told, if that is so.
func (w *Worker) nobodySleeps(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	if err := w.store.NobodySleeps(ctx); err != nil && ctx.Err() == nil {
		w.log.Debug().Err(err).Msg("it could not be said that nobody sleeps: commits look for sleepers in vain")
	}
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
	q.handed = q.handed || q.hands
	if err == nil {
		q.anew = false
	}
	if errors.Is(refused, queue.ErrNoHands) { // the connection is lost, or this worker is in reserve by now: another one is told of
		return err
	}
	if refused != nil {
		q.handAgain = time.Now().Add(cannotBeHanded)
		if r.cfg.Seat != nil && !errors.Is(refused, queue.ErrThroughPooler) {
			r.cfg.Seat.Redial() // another one may do
		}
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
		now := time.Now()
		if pause := q.calmDown(found, now); pause >= 0 {
			return pause
		}
		q.calmedDown(now)
	}
	hearing := r.sit()
	switch {
	case hearing == listen.Reserve: // others hear; when it is this one's turn, the bell rings
		had := q.hands
		if q.told {
			r.takeBack()
		}
		if had { // and it did not hear any more of what it was handed until then
			r.unheard()
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

// leave takes the wish back for good: a worker that drains needs no notifications.
func (r *reserving) leave() {
	defer r.rise()
	defer r.handovers.close()
	if r.end.Err() != nil || r.looking.fails > 0 {
		r.refuseHanded()
		return
	}
	handed := r.cfg.TakesHanded && (r.quiet.told || r.quiet.handed || r.handovers.any())
	if r.quiet.wants || handed {
		switch ok := r.stopWanting(); {
		case !ok: // nothing answers
			r.refuseHanded()
		case r.cfg.TakesHanded:
			r.returnHanded()
		}
	}
}
