package worker

import (
	"slices"
	"time"

	"notifyworker/internal/queue"
)

// takeOver takes over jobs that others were handed and have let lie, any when it is about none. Those that it can't have for now stay
// watched.
func (r *reserving) takeOver(lying []watched) {
	if r.stop.Err() != nil {
		return
	}
	free := r.slots.free()
	if len(lying) > 0 {
		free = min(free, len(lying))
	}
	free = r.slots.book(free)
	defer r.slots.unbook(free)
	if free == 0 {
		r.watchOn(lying, nil)
		return
	}
	var ids []int64
	if len(lying) > 0 {
		ids = make([]int64, len(lying))
	}
	for i, o := range lying {
		ids[i] = o.job
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
