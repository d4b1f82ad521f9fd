package worker

import (
	"math/rand/v2"
	"slices"
	"time"

	"notifyworker/internal/queue"
)

// patience is how long whoever was handed a job is given to take it.
func (w *Worker) patience() time.Duration {
	return max(takeOverAfter, takeOverCalls*w.handovers.call())
}

// takeOver takes over these jobs, which others were handed and have let lie. Those that it can't have for now stay watched.
func (r *reserving) takeOver(lying []watched) {
	if r.stop.Err() != nil {
		return
	}
	free := r.slots.book(min(r.slots.free(), len(lying)))
	defer r.slots.unbook(free)
	if free == 0 {
		r.watchOn(lying, nil)
		return
	}
	ids := make([]int64, len(lying))
	for i, o := range lying {
		ids[i] = o.job
	}
	asked := time.Now()
	jobs, err := r.startOthers(ids, free, 0)
	r.handovers.tookCall(time.Since(asked))
	if err != nil || len(jobs) == free { // the others were not looked after
		r.watchOn(lying, jobs)
	}
}

// startOthers takes over at most n jobs and starts them: these, or when ids is nil any that were handed over so long ago at least.
func (r *reserving) startOthers(ids []int64, n int, ago time.Duration) ([]queue.Job, error) {
	asked := time.Now()
	ctx, done := r.statement(r.stop, r.end)
	jobs, err := r.store.TakeOver(ctx, ids, n, ago)
	done()
	if r.stop.Err() == nil && r.standing.changed(err) {
		r.logTrouble(err, "look after what was handed to others")
	}
	for _, j := range jobs {
		r.stats.tookOver()
		r.stats.reserved(j)
		if r.stop.Err() != nil {
			r.giveBack(j, asked, errDraining)
			continue
		}
		r.start(r.end, j, asked, r.handlers)
	}
	return jobs, err
}

// watchOn watches on what is not among these jobs, until its lease counts.
func (r *reserving) watchOn(lying []watched, but []queue.Job) {
	now := time.Now()
	for _, o := range lying {
		if now.Before(o.until) && !slices.ContainsFunc(but, func(j queue.Job) bool { return j.ID == o.job }) {
			o.due = now.Add(takeOverApart)
			r.handovers.watch(o, r.ringHanded)
		}
	}
}

// unheardOf are jobs that may have been handed to others while this worker did not hear of them. Nobody else may have heard, as when
// those who listen are changing, or have all frozen. The zero value is none.
type unheardOf struct {
	since time.Time // of those handed over later it has heard
	due   time.Time // then they are to be looked after
	until time.Time // their leases count from then on
}

// missedOthers has jobs looked after that were handed to others before now. This worker listens from now on; whoever was handed one has
// the usual time to take it, and 0.1 s where nothing is known of how long that takes. Many begin to listen at once when a server has
// come back.
func (r *reserving) missedOthers() {
	now := time.Now()
	wait := max(r.patience(), longestCall) + rand.N(takeOverTimes*takeOverApart)
	r.unheardOf = unheardOf{now, now.Add(wait), now.Add(watchFor)}
	r.handovers.ringAt(r.unheardOf.due, r.ringHanded)
}

// othersAreSilent has looked after what was handed to those who should have been told of work, and seem not to have heard.
func (r *reserving) othersAreSilent() {
	now := time.Now()
	r.unheardOf = unheardOf{now.Add(-r.patience()), now, now.Add(watchFor)}
}

// takeUnheardOf looks after what this worker did not hear of, when it is time. Without a slot it does when one is free.
func (r *reserving) takeUnheardOf() {
	u := &r.unheardOf
	now := time.Now()
	switch {
	case u.since.IsZero() || now.Before(u.due) || r.stop.Err() != nil:
		return
	case now.After(u.until):
		*u = unheardOf{}
		return
	}
	free := r.slots.free()
	if free > 1 {
		free-- // for what is handed over meanwhile
	}
	free = r.slots.book(free)
	defer r.slots.unbook(free)
	if free == 0 {
		return
	}
	switch jobs, err := r.startOthers(nil, free, now.Sub(u.since)); {
	case err != nil || len(jobs) == free: // there may be more
		u.due = time.Now().Add(takeOverApart)
		r.handovers.ringAt(u.due, r.ringHanded)
	default:
		*u = unheardOf{}
	}
}
