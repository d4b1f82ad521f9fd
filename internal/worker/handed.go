package worker

import (
	"errors"
	"slices"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// While this worker sleeps, commits hand it their jobs: such a job is RUNNING for it already, and has only to be taken. Another
// worker's are watched, and taken over when it has let them lie. See hand_over.sql.

const (
	// Who was handed a job takes it within a millisecond. Others look after this, at one of so many times, so that the first of them
	// mostly spares the others a job: of a large fleet three others hear of it. All of them look, since those who are first by
	// what the beats told may have died or become busy since.
	takeOverAfter = 40 * time.Millisecond
	// Where a call takes long, as through a slow network, others give so many of them: one may be under way when the job is heard of.
	takeOverCalls = 3
	takeOverApart = 15 * time.Millisecond
	takeOverTimes = 3
	// What is to be looked after within such a time is so by one statement.
	takeOverTogether = 10 * time.Millisecond
	// Somebody looks after a job of this worker's, most likely to take it over: a statement of a millisecond.
	takeAgain    = 5 * time.Millisecond
	takeAgainCap = 500 * time.Millisecond
	// A job that can't be taken over for now is watched for so long: a usual lease.
	watchFor = 8 * time.Second
	// The session of the hands is asked for something at least so often while it is known to commits, or its end would not be noticed.
	handsQuiet = idleTurn - time.Second
	// What was handed over is remembered up to so many jobs; of more, those of this worker are asked for.
	mostHanded = 256
	// One call of the table is about at most so many.
	handedAtOnce = 64
	// A worker that was handed more than it has slots for is handed nothing for this time, and one that can't be, for that.
	handedTooMany  = 100 * time.Millisecond
	cannotBeHanded = 30 * time.Second
	// So often at most a job that was somebody else's by then makes this worker say anew that it takes jobs.
	doubtApart = time.Second
)

var errNoSlot = errors.New("handed over when no slot was free")

// Handed takes note of a job that a commit has handed to a worker.
func (w *Worker) Handed(h listen.Handed) {
	w.leases.within(w.handovers.lease) // no look tells of it
	if h.Worker == w.cfg.ID {
		w.handovers.mine(h.Job)
		w.cfg.Bell.Ring(listen.HandedOver)
		return
	}
	now := time.Now()
	wait := max(takeOverAfter, takeOverCalls*w.handovers.call())
	due := now.Add(wait + time.Duration(w.standsBy(h)%takeOverTimes)*takeOverApart + takeOverTogether).Truncate(takeOverTogether)
	w.handovers.watch(watched{h.Job, due, now.Add(watchFor)}, w.ringHanded)
}

func (w *Worker) ringHanded() { w.cfg.Bell.Ring(listen.HandedOver) }

// standsBy says which place this worker has among those who look after a job that was handed to another.
func (w *Worker) standsBy(h listen.Handed) (place int) {
	key := h.Worker
	mine := weight(w.cfg.ID, key)
	if ids := w.turns.workers.Load(); ids != nil {
		for _, id := range *ids {
			if id != h.Worker && id != w.cfg.ID && weight(id, key) > mine {
				place++
			}
		}
	}
	return place
}

// taken is a job that this worker has taken, until it is its no more.
type taken struct {
	job  queue.Handed
	hold *hold
}

// takeHanded takes what commits have handed to this worker, and takes over what others have let lie. Trouble with that is no reason
// not to look for other jobs.
func (r *reserving) takeHanded() {
	if !r.cfg.TakesHanded {
		return
	}
	r.let()
	if time.Now().Before(r.takeAt) {
		r.handovers.ringAt(r.takeAt, r.ringHanded)
		return
	}
	own, unsure, others := r.handovers.next(r.ringHanded)
	if r.causes.Has(listen.Unheard) { // those who were handed jobs, too, may have fallen silent, and nobody hears of them
		r.takeOver(nil)
	}
	if len(own) > 0 || unsure || r.quiet.hands && time.Since(r.heldAt) >= handsQuiet {
		r.take(own, unsure)
	}
	if len(others) > 0 {
		r.takeOver(others)
	}
}

// let gives back the locks of jobs that are this worker's no more.
func (r *reserving) let() {
	kept := r.taken[:0]
	for _, t := range r.taken {
		if r.slots.over(t.hold) {
			r.store.Let(t.job)
		} else {
			kept = append(kept, t)
		}
	}
	clear(r.taken[len(kept):])
	r.taken = kept
}

// take takes these jobs, and all that the table has for this worker when there may be others. What is more than there are slots goes
// back. Without any it asks whether the session of the hands is still there. After an error nothing is lost: it asks for all.
func (r *reserving) take(ids []int64, all bool) {
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	if all {
		began := time.Now()
		mine, err := r.store.Mine(ctx)
		if err != nil {
			r.notTaken(err, began, "ask what was handed over")
			return
		}
		ids = append(ids, mine...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids) // heard of twice, or heard of and asked for: it is to be started once
	var met []int64
	for first := true; first || len(ids) > 0; first = false {
		var now []int64
		now, ids = ids[:min(len(ids), handedAtOnce)], ids[min(len(ids), handedAtOnce):]
		if now = r.slots.unknown(now); len(now) == 0 && (!first || all || time.Since(r.heldAt) < handsQuiet) {
			continue
		}
		asked := time.Now()
		jobs, again, err := r.store.Take(ctx, now)
		if r.notTaken(err, asked, "take what was handed over") {
			r.quiet.anew = true // what commits know of the hands is of the session that has ended
			return
		}
		r.heldAt = asked
		if len(now) > 0 {
			took := time.Since(asked)
			r.stats.looked(len(jobs), took)
			r.quiet.asked(took)
			r.handovers.tookCall(took)
		}
		for _, j := range jobs {
			r.startHanded(j, asked)
		}
		met = append(met, again...)
		if len(jobs)+len(again) < len(now) && !all { // somebody took them over, and commits hand this worker nothing any more
			r.quiet.anew = true
			if time.Since(r.quiet.doubted) > doubtApart {
				r.quiet.doubted, r.hungry = time.Now(), true
			}
		}
	}
	r.notTaken(nil, time.Time{}, "")
	if len(met) == 0 {
		if !r.handovers.putOff() {
			r.met = 0
		}
		return
	}
	r.handovers.later(met, time.Now().Add(growing(takeAgain, takeAgainCap, r.met)), r.ringHanded)
	r.met++
}

// refuseHanded sees to it, where no commit can be told, that none finds this worker.
func (r *reserving) refuseHanded() {
	r.quiet.hands = false
	r.store.CloseHands()
}

// notTaken takes note of how a call ended by which this worker has its jobs. After an error it asks for all of them, a little later.
func (r *reserving) notTaken(err error, began time.Time, doing string) bool {
	if r.stop.Err() != nil && err != nil {
		return true
	}
	if r.taking.changed(err) {
		r.logTrouble(err, doing)
	}
	if err == nil {
		return false
	}
	r.handovers.doubt()
	r.hungry = true // and so it says anew that it takes jobs
	r.takeAt = time.Now().Add(r.taking.delay(err, began))
	r.handovers.ringAt(r.takeAt, r.ringHanded)
	return true
}

// startHanded starts a job that was taken, or returns it.
func (r *reserving) startHanded(j queue.Handed, asked time.Time) {
	if r.slots.knows(j.Token) {
		r.store.Let(j)
		return
	}
	started := j.Job
	started.StartedAt = j.LeaseUntil.Add(-j.Lease) // the row has when it was handed over
	r.stats.reserved(started)
	r.quiet.woken(asked)
	// By the rule of its type, as the next extension will have it: what the row says began before its last extension.
	lease := r.cfg.settings(j.Type).Lease
	j.LeaseUntil = j.StartedAt.Add(lease)
	left := j.Lease - time.Since(asked) // a process may freeze between the answer and here
	var h *hold
	switch {
	case r.stop.Err() != nil:
		h = r.giveBack(j.Job, asked, errDraining)
	case left < lease/2 || r.slots.free() == 0:
		h = r.giveBack(j.Job, asked, errNoSlot)
		if r.quiet.hands {
			r.quiet.handAgain = time.Now().Add(handedTooMany)
			r.takeNoMore()
		}
	default:
		h = r.start(r.end, j.Job, asked.Add(j.Lease-lease), r.handlers)
	}
	r.taken = append(r.taken, taken{j, h})
}

// takeNoMore says that commits shall hand this worker no more jobs.
func (r *reserving) takeNoMore() {
	if err := r.wish(true, false); err != nil {
		r.log.Debug().Err(err).Msg("it could not be said that this worker takes no jobs: commits hand it some in vain")
	}
}

// withdrawHands says so, and sees to it that no job is forgotten that it was handed before.
func (r *reserving) withdrawHands() {
	r.takeNoMore()
	r.unheard()
}

// unheard asks for what this worker was handed and may not have heard of, once commits have seen that it takes no more.
func (r *reserving) unheard() {
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	_, _ = r.store.Barrier(ctx) // those under way that saw that it takes jobs, or as many of them as end soon
	r.handovers.doubt()
	r.ringHanded()
}

// returnHanded gives back what was handed to this worker and is not started, when commits hand it nothing any more.
func (r *reserving) returnHanded() {
	ctx, done := r.statement(r.stop, r.end)
	_, err := r.store.Barrier(ctx) // those under way that saw that it wants jobs
	done()
	if err != nil {
		return
	}
	own, _, _ := r.handovers.next(func() {})
	r.take(own, true)
}
