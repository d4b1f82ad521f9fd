package worker

import (
	"slices"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// missedOthers has this worker look after jobs that were handed to others while it did not hear of them: it listens from now on. Nobody
// else may have heard either, as when those who listen are changing. Whoever was handed one has the usual time to take it.
func (w *Worker) missedOthers() {
	if w.cfg.TakesHanded {
		now := time.Now()
		w.handovers.watch(watched{anyJob, now.Add(w.patience()), now.Add(watchFor)}, w.ringHanded)
	}
}

// patience is how long whoever was handed a job is given to take it.
func (w *Worker) patience() time.Duration {
	return max(takeOverAfter, takeOverCalls*w.handovers.call())
}

// standBy takes over what others have let lie, of those that are due.
func (r *reserving) standBy(due []watched) {
	var known, any []watched
	for _, o := range due {
		if o.job == anyJob {
			any = []watched{o}
		} else {
			known = append(known, o)
		}
	}
	if r.causes.Has(listen.Unheard) { // those who were handed jobs, too, may have fallen silent, and nobody hears of them
		any = []watched{{anyJob, time.Time{}, time.Now().Add(watchFor)}}
	}
	for _, lying := range [][]watched{any, known} {
		if len(lying) > 0 {
			r.takeOver(lying)
		}
	}
}

// takeOver takes over jobs that others were handed and have let lie: anyJob, or some by their ids. Those that it can't have for now stay
// watched.
func (r *reserving) takeOver(lying []watched) {
	if r.stop.Err() != nil {
		return
	}
	free := r.slots.free()
	var ids []int64 // nil: any
	if lying[0].job != anyJob {
		free = min(free, len(lying))
		for _, o := range lying {
			ids = append(ids, o.job)
		}
	}
	free = r.slots.book(free)
	defer r.slots.unbook(free)
	if free == 0 {
		r.watchOn(lying, nil)
		return
	}
	asked := time.Now()
	ctx, done := r.statement(r.stop, r.end)
	jobs, err := r.store.TakeOver(ctx, ids, free)
	done()
	r.handovers.tookCall(time.Since(asked))
	if r.stop.Err() == nil && r.standing.changed(err) {
		r.logTrouble(err, "look after what was handed to others")
	}
	if err != nil {
		r.watchOn(lying, nil)
		return
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
	if len(jobs) == free { // the others were not looked after
		r.watchOn(lying, jobs)
	}
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
