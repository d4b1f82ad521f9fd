package worker

import (
	"slices"
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

// fetch takes back all that the table has for this worker and that it knows nothing of: a notification was lost with its connection, or
// could not be followed. What is more than there are slots goes back. After an error nothing is lost: it asks again. When it was heard of
// one and gets none, somebody has taken it over.
func (r *reserving) fetch(heard bool) {
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	began := time.Now()
	mine, err := r.store.Mine(ctx)
	if r.notTaken(&r.fetching, err, began, "ask what was handed over") {
		r.handovers.doubtAt(time.Now().Add(troubleFirst), r.ringHanded)
		return
	}
	unknown, claimed := r.slots.claimUnknown(mine)
	got, met := 0, 0
	for rest := unknown; len(rest) > 0; {
		var now []queue.Own
		now, rest = rest[:min(len(rest), handedAtOnce)], rest[min(len(rest), handedAtOnce):]
		asked := time.Now()
		jobs, again, err := r.store.TakeBack(ctx, now) // which may be carried out late: their claims stay until it answers
		if r.notTaken(&r.fetching, err, asked, "take back what was handed over") {
			r.handovers.doubtAt(time.Now().Add(troubleFirst), r.ringHanded)
			return
		}
		r.stats.looked(len(jobs), time.Since(asked))
		r.quiet.tookBack(len(jobs), asked)
		for _, j := range jobs {
			r.startBack(j, asked)
		}
		for _, o := range now {
			if !slices.Contains(again, o.ID) {
				r.slots.unclaim(o.ID)
			}
		}
		got, met = got+len(jobs), met+len(now)-len(jobs) // somebody else's by now, or this worker's by an earlier call that came late
	}
	switch {
	case met > 0:
		r.askAgain()
		return
	case claimed:
		r.handovers.doubtAt(time.Now().Add(takeAgain), r.ringHanded)
	case got == 0 && (heard || r.met > 0):
		r.wasTakenOver()
	}
	r.met = 0
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

// askAgain has it asked a little later what this worker was handed: somebody looks after a job of it at this moment, or the listener does.
func (r *reserving) askAgain() {
	r.handovers.doubtAt(time.Now().Add(growing(takeAgain, takeAgainCap, r.met)), r.ringHanded)
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
	for ok := false; !ok && ctx.Err() == nil; { // those under way that saw that it wants jobs
		var err error
		if ok, err = r.store.Barrier(ctx); err != nil {
			break
		}
	}
	r.handovers.close() // from here on the listener takes none
	r.handovers.doubt()
	for {
		r.noteTaken()
		if unsure, heard, _ := r.handovers.next(r.ringHanded); unsure {
			r.fetch(heard)
		}
		if !r.handovers.any() {
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
