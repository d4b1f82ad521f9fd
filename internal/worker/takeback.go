package worker

import (
	"time"

	"notifyworker/internal/queue"
)

const (
	// Somebody looks after a job of this worker's, most likely to take it over: a statement of a millisecond.
	takeAgain    = 5 * time.Millisecond
	takeAgainCap = 500 * time.Millisecond
	// One call of the table is about at most so many.
	handedAtOnce = 64
)

// fetch takes back these jobs, and all that the table has for this worker and that it knows nothing of when there may be others: a
// notification was lost with its connection, or could not be followed. What is more than there are slots goes back. After an error
// nothing is lost: it asks for all.
func (r *reserving) fetch(ids []int64, all bool) {
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	if all {
		began := time.Now()
		mine, err := r.store.Mine(ctx)
		if r.notTaken(&r.fetching, err, began, "ask what was handed over") {
			r.handovers.doubt()
			return
		}
		ids = ids[:0]
		for _, m := range mine { // what was put off is among them
			if !r.slots.knows(m.Token) {
				ids = append(ids, m.ID)
			}
		}
	}
	ids = r.slots.claimAll(ids) // but for those that the listener is taking
	defer r.slots.unclaim(ids...)
	var met []int64
	for rest := ids; len(rest) > 0; {
		var now []int64
		now, rest = rest[:min(len(rest), handedAtOnce)], rest[min(len(rest), handedAtOnce):]
		asked := time.Now()
		jobs, again, err := r.store.TakeBack(ctx, now)
		if r.notTaken(&r.fetching, err, asked, "take back what was handed over") {
			r.handovers.doubt()
			return
		}
		r.stats.looked(len(jobs), time.Since(asked))
		for _, j := range jobs {
			r.startBack(j, asked)
		}
		met = append(met, again...)
		if len(jobs)+len(again) < len(now) && !all {
			r.wasTakenOver()
		}
	}
	if len(met) > 0 {
		r.metAgain(met)
	} else if !r.handovers.putOff() {
		r.met = 0
	}
}

// startBack starts a job that was taken back, or returns it.
func (r *reserving) startBack(j queue.Job, asked time.Time) {
	r.stats.reserved(j)
	slot := r.slots.book(1)
	defer r.slots.unbook(slot)
	switch {
	case r.stop.Err() != nil:
		r.giveBack(j, asked, errDraining)
	case slot == 0:
		r.giveBack(j, asked, errNoSlot)
		r.tooMany()
	default:
		r.start(r.end, j, asked, r.handlers)
	}
}

// metAgain puts off jobs of this worker's that somebody looks after.
func (r *reserving) metAgain(ids []int64) {
	r.handovers.later(ids, time.Now().Add(growing(takeAgain, takeAgainCap, r.met)), r.ringHanded)
	r.met++
}

// withdrawHands says that commits shall hand this worker no more jobs, and sees to it that none is forgotten that it was handed before.
func (r *reserving) withdrawHands() {
	r.takeNoMore()
	r.unheard()
}

// unheard asks for what this worker was handed and may not have heard of, once commits have seen that it takes no more.
func (r *reserving) unheard() {
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	_, _ = r.store.Barrier(ctx) // those under way that saw that it takes jobs, or as many of them as end soon
	r.doubtHands()
}

// doubtHands asks for it at the next turn.
func (r *reserving) doubtHands() {
	r.handovers.doubt()
	r.ringHanded()
}

// returnHanded gives back what was handed to this worker and is not started, when commits hand it nothing any more.
func (r *reserving) returnHanded() {
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	if _, err := r.store.Barrier(ctx); err != nil { // those under way that saw that it wants jobs
		return
	}
	r.handovers.close() // from here on the listener takes none
	for all := true; ; all = false {
		r.noteTaken()
		own, unsure, _ := r.handovers.next(r.ringHanded)
		if r.fetch(own, all || unsure); !r.handovers.any() {
			return
		}
		select { // for the listener's answer, or when who looks after one may be done
		case <-r.cfg.Bell.C():
			r.cfg.Bell.Take()
		case <-ctx.Done():
			return
		}
	}
}
