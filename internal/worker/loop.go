package worker

import (
	"context"
	"sync"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

const (
	untilWoken = time.Duration(-1)

	// A job that is due but can't be had (somebody holds its row) is looked for again after this, doubled each time.
	blockedFirst = 20 * time.Millisecond
	blockedCap   = time.Second

	// After a brief look a whole one follows within this, once for all brief ones of the time.
	afterBrief = 20 * time.Millisecond

	// A job that the slow poll found counts as a missed wake-up when it had been due for longer than this: a younger one was
	// announced at about the moment of the poll.
	missedAfter = time.Second

	// A worker that sleeps turns over now and then, which asks the database nothing, and shows that its loop lives.
	idleTurn = 10 * time.Second
)

// reserving is the loop's memory. Only the goroutine of Run touches it.
type reserving struct {
	*Worker
	stop, end context.Context
	handlers  *sync.WaitGroup

	hungry    bool          // something may be due that no look has seen
	causes    listen.Causes // why, since the last look
	freed     bool          // the rest ended because a slot became free
	blocked   int           // looks in a row that found nothing though something is due
	looking   trouble
	dozing    trouble // of the calls that lead to sleep
	poison    trouble
	taking    trouble // of taking what was handed over
	fetching  trouble // of taking back what could not be
	handing   trouble // of being handed jobs
	standing  trouble // of looking after what was handed to others
	unheardOf unheardOf
	taken     []taken
	takeAt    time.Time // jobs that were handed over are not asked for before
	met       int       // calls in a row that met somebody who looks after a job
	strict    bool      // the coming pause is for a failure: a ring doesn't end it before troubleStrict
	quiet     sleepiness
}

// loop reserves for free slots until stop ends.
func (w *Worker) loop(stop, end context.Context, handlers *sync.WaitGroup) {
	r := &reserving{Worker: w, stop: stop, end: end, handlers: handlers, hungry: true, quiet: sleepiness{calm: true, sits: true, pace: w.pace}}
	if w.cfg.TakesHanded {
		w.handovers.open(func(j queue.Job, asked time.Time) *hold {
			if stop.Err() != nil {
				return nil
			}
			return w.start(end, j, asked, handlers)
		})
	}
	for stop.Err() == nil {
		if pause := r.step(); pause != 0 {
			r.rest(pause)
		}
	}
	r.leave()
}

// step does what there is to do, and returns how long to rest: not at all, until woken, or until woken but at most so long.
func (r *reserving) step() time.Duration {
	r.stats.turned(Working)
	freed := r.freed
	r.freed = false
	many := false
	if rung := r.cfg.Bell.Take(); rung != 0 {
		many = rung.Has(listen.Many)
		r.stats.woken(rung)
		if rung.Has(listen.Connected) {
			r.handovers.doubt() // a job may have been handed over and not been heard of
			r.missedOthers()
			r.quiet.anew = true // the server may be another one by now, and the session of the hands gone
		}
		if rung.Has(listen.Unheard) {
			r.othersAreSilent()
		}
		if rung = rung.Without(listen.HandedOver); rung != 0 {
			r.causes |= rung
			r.hungry = true
		}
	}
	if r.rearm.Swap(false) {
		r.quiet.distrust()
		r.hungry = true
		freed = false
	}
	r.takeHanded()
	if many && !r.place.crowded() { // in a large fleet to rise is to leave a seat to somebody
		r.quiet.toldOfMany(time.Now())
	}
	if r.quiet.hands && r.quiet.often() {
		r.rise()
		r.stopWanting()
	}
	free := r.slots.free()
	if free == 0 {
		return r.full() // hungry is kept: a freed slot looks again
	}
	if r.hungry {
		if pause := r.gathering.more(free); pause > 0 {
			r.freed = freed
			return pause
		}
	}
	r.quiet.fullSince = time.Time{}
	if !r.hungry {
		return untilWoken
	}
	if r.quiet.hands && free > 1 {
		free-- // for what is handed over meanwhile
	}
	if free = r.slots.book(free); free == 0 {
		return r.full()
	}
	trusted := r.quiet.armed || r.quiet.trusts && r.inReserve()
	began := time.Now()
	// Whoever sleeps armed knows of all that was there, and is told of all that comes. So the job that woke it is had first, and
	// all other questions are asked a moment later.
	res, err := r.look(free, r.quiet.armed && r.causes.OnlyOf(listen.Notified, listen.Many))
	r.slots.unbook(free)
	r.stats.reserving(err)
	if pause, failed := r.failed(&r.looking, err, began, "reserve"); failed {
		return pause
	}
	if freed {
		r.stats.freed()
	}
	if trusted && r.causes.Only(listen.Poll) {
		r.missed(res)
	}
	r.between.by(res.LookBetween)
	r.back.by(res.LookBack)
	r.quiet.looked(len(res.Jobs), r.causes)
	r.causes = 0
	r.gathering.looked(free, len(res.Jobs))
	if len(res.Jobs) >= free {
		r.blocked = 0
		return r.busy() // there may be more
	}
	return r.nothingMore(res)
}

// look reserves and starts what it got. When a stop came meanwhile, what it got goes back unstarted.
func (r *reserving) look(n int, brief bool) (queue.Reservation, error) {
	asked := time.Now()
	ctx, done := r.statement(r.stop, r.end)
	reserve := r.store.Reserve
	if brief {
		reserve = r.store.ReserveBriefly
	}
	res, err := reserve(ctx, n)
	took := time.Since(asked)
	done()
	if err != nil {
		return res, err
	}
	r.stats.looked(len(res.Jobs), took)
	r.quiet.asked(asked, took)
	if r.poison.changed(res.Poisoned) && res.Poisoned != nil {
		r.log.Error().Err(res.Poisoned).Msg("a due job can't be reserved: something in the database refuses it")
	}
	for _, j := range res.Jobs {
		r.stats.reserved(j)
		if r.stop.Err() != nil {
			r.giveBack(j, asked, errDraining)
			continue
		}
		r.start(r.end, j, asked, r.handlers)
	}
	return res, nil
}

// nothingMore goes on from a look that found less than it asked for.
func (r *reserving) nothingMore(res queue.Reservation) time.Duration {
	if res.NextLease >= 0 {
		r.leases.within(res.NextLease)
	}
	if r.cfg.Polling {
		r.hungry = false
		return untilWoken
	}
	switch {
	case res.Brief:
		r.blocked = 0
		r.cfg.Bell.RingIn(afterBrief)
	case res.NextDue != 0:
		r.blocked = 0
		if res.NextDue > 0 {
			r.cfg.Bell.RingIn(res.NextDue + r.spread())
		}
	case len(res.Jobs) > 0:
		r.blocked = 0
		return 0
	default: // due, and yet not got: somebody has its row's lock, or is reserving it this very moment
		r.cfg.Bell.RingIn(growing(blockedFirst, blockedCap, r.blocked))
		r.blocked++
	}
	return r.fallAsleep(len(res.Jobs))
}

// failed takes note of how a call ended.
func (r *reserving) failed(t *trouble, err error, began time.Time, doing string) (pause time.Duration, failed bool) {
	if r.stop.Err() != nil && err != nil {
		return 0, true
	}
	if t.changed(err) {
		r.logTrouble(err, doing)
	}
	if err == nil {
		return 0, false
	}
	r.strict = true
	r.hungry = true
	return t.delay(err, began), true
}

// rest waits for the bell, a freed slot, the clock or the stop.
func (r *reserving) rest(pause time.Duration) {
	if r.strict {
		r.strict = false
		first := min(pause, troubleStrict)
		if !sleep(r.stop, first) || pause == first {
			return
		}
		pause -= first
	}
	if pause == untilWoken {
		pause = idleTurn
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	began := time.Now()
	select {
	case <-r.cfg.Bell.C():
	case <-r.slots.freed:
		r.freed = true
	case <-t.C:
	case <-r.stop.Done():
	}
	if !r.hungry && r.quiet.fullSince.IsZero() { // who is full of what it was handed does not rest
		r.quiet.rested(time.Since(began))
	}
}

// missed counts jobs that only the slow poll has found: those that the look before would have found, had it been told of them.
func (r *reserving) missed(res queue.Reservation) {
	n := 0
	for _, j := range res.Jobs {
		if waited(j) > missedAfter && !j.RunAfter.Before(res.LastFrom) {
			n++
		}
	}
	if n > 0 {
		r.stats.missed(n)
		r.log.Warn().Int("jobs", n).Msg("only the slow poll found them: a wake-up was missed")
	}
}

// waited is how long a job had been due when it was reserved, by the database's clock.
func waited(j queue.Job) time.Duration {
	due := j.CreatedAt
	if j.RunAfter.After(due) {
		due = j.RunAfter
	}
	return max(0, j.StartedAt.Sub(due))
}
