package worker

import (
	"context"
	"errors"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// While this worker sleeps, commits hand it their jobs: such a job is RUNNING for it already, and has only to be taken. That is done by
// the listener's goroutine on the connection that has heard of it, which also starts it: who has taken a job keeps others from it, so
// the start must not wait for whatever the loop waits for. What was not heard of, or could not be taken, the loop takes back, see
// takeback.go. Another worker's are watched, and taken over when it has let them lie. See hand_over.sql.

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
	// A job that can't be taken over for now is watched for so long: a usual lease.
	watchFor = 8 * time.Second
	// What was handed over is remembered up to so many jobs; of more, those of this worker are asked for.
	mostHanded = 256
	// A worker that was handed more than it has slots for is handed nothing for this time, and one that can't be, for that.
	handedTooMany  = 100 * time.Millisecond
	cannotBeHanded = 30 * time.Second
	// So often at most a job that was somebody else's by then makes this worker say anew that it takes jobs.
	doubtApart = time.Second
)

var errNoSlot = errors.New("handed over when it could not be started")

// HungUp returns what has the loop ask for what this worker was handed at the last moment, once that is known. See listen.Hands.
func (w *Worker) HungUp() (ask func(context.Context)) {
	wait := w.store.HungUp()
	return func(ctx context.Context) {
		if err := wait(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug().Err(err).Msg("what was handed over at the last moment may not be known of yet")
		}
		w.handovers.doubt()
		w.ringHanded()
	}
}

// Handed takes a job that a commit has handed to this worker, and starts it; or it takes note of one that was handed to another.
func (w *Worker) Handed(ctx context.Context, h listen.Handed) {
	w.leases.within(w.handovers.lease) // no look tells of it
	now := time.Now()
	if h.Worker == w.cfg.ID {
		w.take(ctx, h.Job, now)
		w.ringHanded()
		return
	}
	due := now.Add(w.patience() + time.Duration(w.standsBy(h)%takeOverTimes)*takeOverApart + takeOverTogether).Truncate(takeOverTogether)
	w.handovers.watch(watched{h.Job, due, now.Add(watchFor)}, w.ringHanded)
}

// take takes a job and starts it, whatever the loop waits for. Without a free slot it leaves that to the loop.
func (w *Worker) take(ctx context.Context, id int64, asked time.Time) {
	if !w.slots.claim(id) { // it is known: somebody tells of it once more
		return
	}
	defer w.slots.unclaim(id)
	slot := w.slots.book(1)
	defer w.slots.unbook(slot)
	if slot == 0 {
		w.handovers.noSlot(asked)
		return
	}
	if !w.handovers.mayTake(asked) {
		return
	}
	t := taking{asked: asked}
	t.job, t.again, t.err = w.store.Take(ctx, id)
	t.took = time.Since(asked)
	if errors.Is(t.err, queue.ErrNoHands) { // nobody can have handed it over
		t.err = nil
	}
	if t.job != nil {
		t.hold, t.returned = w.begin(t.job, asked)
	}
	w.handovers.answered(t)
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

// takeHanded takes note of what was taken, takes back what could not be, and takes over what others have let lie. Trouble with that is no
// reason not to look for other jobs.
func (r *reserving) takeHanded() {
	if !r.cfg.TakesHanded {
		return
	}
	r.let()
	r.noteTaken()
	unsure, heard, others := r.handovers.next(r.ringHanded)
	r.takeUnheardOf()
	if unsure {
		r.fetch(heard)
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

// noteTaken takes note of what the listener has taken, and tried to.
func (r *reserving) noteTaken() {
	again := false
	for _, t := range r.handovers.taken() {
		if r.notTaken(&r.taking, t.err, t.asked, "take what was handed over") {
			r.quiet.handAgain = r.takeAt
			continue
		}
		r.quiet.asked(t.asked, t.took)
		r.handovers.tookCall(t.took)
		switch {
		case t.job != nil:
			r.stats.looked(1, t.took)
			if t.hold == nil { // it had this one already
				r.store.Let(*t.job)
				continue
			}
			r.quiet.tookHanded(t.asked)
			r.taken = append(r.taken, taken{*t.job, t.hold})
			if t.returned {
				r.tooMany()
			}
		case t.again:
			r.stats.looked(0, t.took)
			again = true
		default:
			r.stats.looked(0, t.took)
			r.wasTakenOver()
		}
	}
	if again {
		r.askAgain()
	}
}

// wasTakenOver takes note that somebody had a job of this worker's, and commits hand it nothing any more.
func (r *reserving) wasTakenOver() {
	r.quiet.anew = true
	if time.Since(r.quiet.doubted) > doubtApart {
		r.quiet.doubted, r.hungry = time.Now(), true
	}
}

// notTaken takes note of how a call ended by which this worker has its jobs. After an error it asks for all of them, a little later.
func (r *reserving) notTaken(t *trouble, err error, began time.Time, doing string) bool {
	if r.stop.Err() != nil && err != nil {
		return true
	}
	if t.changed(err) {
		r.logTrouble(err, doing)
	}
	if err == nil {
		return false
	}
	r.takeAt = time.Now().Add(t.delay(err, began))
	r.handovers.restUntil(r.takeAt, r.ringHanded)
	r.quiet.anew = true                     // what commits know of the hands is of a session that has ended
	r.cfg.Bell.RingIn(time.Until(r.takeAt)) // and after the look it says anew that it takes jobs
	r.hungry = true                         // meanwhile it is told of them
	return true
}

// begin starts a job that was taken, or returns it. It does neither, and returns nil, when this process has it already.
func (w *Worker) begin(j *queue.Handed, asked time.Time) (h *hold, returned bool) {
	if w.slots.knows(j.Token) { // its handler goes on though its lease was lost
		return nil, false
	}
	started := j.Job
	started.StartedAt = j.LeaseUntil.Add(-j.Lease) // the row has when it was handed over
	w.stats.reserved(started)
	// By the rule of its type, as the next extension will have it: what the row says began before its last extension.
	lease := w.cfg.settings(j.Type).Lease
	j.LeaseUntil = j.StartedAt.Add(lease)
	left := j.Lease - time.Since(asked) // a process may freeze between the answer and here
	if left >= lease/2 {
		if h = w.handovers.begin(j.Job, asked.Add(j.Lease-lease)); h != nil {
			return h, false
		}
	}
	return w.giveBack(j.Job, asked, errNoSlot), true
}

// tooMany takes note that this worker was handed more than it has slots for.
func (r *reserving) tooMany() {
	if r.quiet.hands {
		r.quiet.handAgain = time.Now().Add(handedTooMany)
		r.takeNoMore()
	}
}

// takeNoMore says that commits shall hand this worker no more jobs.
func (r *reserving) takeNoMore() {
	if err := r.wish(true, false); err != nil {
		r.log.Debug().Err(err).Msg("it could not be said that this worker takes no jobs: commits hand it some in vain")
	}
}

// refuseHanded sees to it, where no commit can be told, that none finds this worker.
func (r *reserving) refuseHanded() {
	r.quiet.hands = false
	if r.cfg.Seat != nil {
		r.cfg.Seat.Redial()
	}
}
