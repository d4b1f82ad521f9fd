package worker

import (
	"errors"
	"sync"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// While this worker sleeps, commits hand it their jobs: such a job is RUNNING for it already, and has only to be taken. Another
// worker's are watched, and taken over when it has let them lie. See hand_over.sql.

const (
	// Who was handed a job takes it within a millisecond. Others look after this, or later by their place in the line of those who
	// stand by: two of them, since each look is a statement.
	takeOverAfter = 40 * time.Millisecond
	takeOverApart = 25 * time.Millisecond
	standingBy    = 2
	// Somebody looks after a job of this worker's, most likely to take it over: a statement of a millisecond.
	takeAgain = 5 * time.Millisecond
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

// handovers is what the listener has heard of jobs that were handed over. Its methods never block.
type handovers struct {
	mu      sync.Mutex
	own     []int64
	unsure  bool // there may be more of them than own
	watched []watched
	timer   *time.Timer // nil: none runs
}

// watched is a job that was handed to somebody else.
type watched struct {
	job int64
	due time.Time // then it is to be looked after
}

// Handed takes note of a job that a commit has handed to a worker.
func (w *Worker) Handed(h listen.Handed) {
	if h.Worker == w.cfg.ID {
		w.handovers.mine(h.Job)
		w.cfg.Bell.Ring(listen.HandedOver)
		return
	}
	if place, ok := w.standsBy(h); ok {
		w.handovers.watch(h.Job, takeOverAfter+time.Duration(place)*takeOverApart, func() { w.cfg.Bell.Ring(listen.HandedOver) })
	}
}

// standsBy says which place this worker has among those who look after a job that was handed to another, if it is one of the first.
func (w *Worker) standsBy(h listen.Handed) (place int, ok bool) {
	key := h.Worker
	mine := weight(w.cfg.ID, key)
	if ids := w.turns.workers.Load(); ids != nil {
		for _, id := range *ids {
			if id != h.Worker && id != w.cfg.ID && weight(id, key) > mine {
				place++
			}
		}
	}
	return place, place < standingBy
}

func (h *handovers) mine(job int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.own) >= mostHanded {
		h.unsure = true
		return
	}
	h.own = append(h.own, job)
}

func (h *handovers) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsure = true
}

func (h *handovers) watch(job int64, in time.Duration, ring func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watched) >= mostHanded {
		return
	}
	h.watched = append(h.watched, watched{job, time.Now().Add(in)})
	if h.timer == nil {
		h.timer = time.AfterFunc(in, func() {
			h.mu.Lock()
			h.timer = nil
			h.mu.Unlock()
			ring()
		})
	}
}

// next returns this worker's jobs, and whether there may be more; and those of others that are to be looked after.
func (h *handovers) next(ring func()) (own []int64, unsure bool, others []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.own), handedAtOnce)
	own, h.own = h.own[:n:n], h.own[n:]
	unsure, h.unsure = h.unsure, false
	now := time.Now()
	kept := h.watched[:0]
	var soonest time.Duration
	for _, o := range h.watched {
		if left := o.due.Sub(now); left > takeOverApart/5 {
			kept = append(kept, o)
			if soonest == 0 || left < soonest {
				soonest = left
			}
			continue
		}
		others = append(others, o.job)
	}
	h.watched = kept
	if soonest > 0 && h.timer == nil {
		h.timer = time.AfterFunc(soonest, func() {
			h.mu.Lock()
			h.timer = nil
			h.mu.Unlock()
			ring()
		})
	}
	return own, unsure, others
}

// taken is a job that this worker has taken, until it is its no more.
type taken struct {
	job  queue.Handed
	hold *hold
}

// takeHanded takes what commits have handed to this worker, and takes over what others have let lie.
func (r *reserving) takeHanded() (pause time.Duration, failed bool) {
	if !r.cfg.TakesHanded {
		return 0, false
	}
	r.let()
	own, unsure, others := r.handovers.next(func() { r.cfg.Bell.Ring(listen.HandedOver) })
	if len(own) > 0 || unsure {
		if pause, failed := r.take(own, unsure); failed {
			r.handovers.doubt()
			return pause, true
		}
	}
	if len(others) > 0 {
		return r.takeOver(others)
	}
	return 0, false
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
// back.
func (r *reserving) take(ids []int64, all bool) (pause time.Duration, failed bool) {
	began := time.Now()
	ctx, done := r.statement(r.stop, r.end)
	defer done()
	if all {
		mine, err := r.store.Mine(ctx)
		if pause, failed := r.failed(&r.taking, err, began, "ask what was handed over"); failed {
			return pause, true
		}
		ids = append(ids, mine...)
	}
	for len(ids) > 0 {
		var now []int64
		now, ids = ids[:min(len(ids), handedAtOnce)], ids[min(len(ids), handedAtOnce):]
		if now = r.slots.unknown(now); len(now) == 0 {
			continue
		}
		asked := time.Now()
		jobs, again, err := r.store.Take(ctx, now)
		if pause, failed := r.failed(&r.taking, err, began, "take what was handed over"); failed {
			return pause, true
		}
		r.stats.looked(len(jobs), time.Since(asked))
		for _, j := range jobs {
			r.startHanded(j, asked)
		}
		for _, id := range again {
			r.handovers.mine(id)
			r.cfg.Bell.RingIn(takeAgain)
		}
		if len(jobs)+len(again) < len(now) && !all && time.Since(r.quiet.doubted) > doubtApart {
			r.quiet.doubted = time.Now() // somebody thought us dead
			r.quiet.hands = false
			r.hungry = true
		}
	}
	return 0, false
}

// startHanded starts a job that was taken, or returns it.
func (r *reserving) startHanded(j queue.Handed, asked time.Time) {
	if r.slots.knows(j.Token) {
		r.store.Let(j)
		return
	}
	r.stats.reserved(j.Job)
	r.quiet.woken(asked)
	lease := j.LeaseUntil.Sub(j.StartedAt)
	var h *hold
	switch {
	case r.stop.Err() != nil:
		h = r.giveBack(j.Job, asked, errDraining)
	case j.Lease < lease/2 || r.slots.free() == 0:
		h = r.giveBack(j.Job, asked, errNoSlot)
		if r.quiet.hands {
			r.quiet.handAgain = time.Now().Add(handedTooMany)
			r.wish(true, false)
		}
	default:
		h = r.start(r.end, j.Job, asked.Add(j.Lease-lease), r.handlers)
	}
	r.taken = append(r.taken, taken{j, h})
}

// takeOver takes over jobs that others were handed and have let lie.
func (r *reserving) takeOver(ids []int64) (pause time.Duration, failed bool) {
	free := r.slots.free()
	if free == 0 || r.stop.Err() != nil {
		return 0, false
	}
	asked := time.Now()
	ctx, done := r.statement(r.stop, r.end)
	jobs, err := r.store.TakeOver(ctx, ids, free)
	done()
	if pause, failed := r.failed(&r.standing, err, asked, "look after what was handed to others"); failed {
		return pause, true
	}
	for _, j := range jobs {
		r.stats.tookOver()
		r.stats.reserved(j)
		r.start(r.end, j, asked, r.handlers)
	}
	return 0, false
}

// returnHanded gives back what was handed to this worker and is not started, when commits hand it nothing any more.
func (r *reserving) returnHanded() {
	if !r.cfg.TakesHanded || r.end.Err() != nil {
		return
	}
	ctx, done := r.statement(r.stop, r.end)
	_, _ = r.store.Barrier(ctx) // those under way that saw that it wants jobs
	done()
	own, _, _ := r.handovers.next(func() {})
	r.take(own, true)
}

