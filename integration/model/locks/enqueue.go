package locks

// beginEnqueue is the first step of add_price_refresh, for an enqueue and for a requeue that merges.
func (x *stepper) beginEnqueue() {
	pr := &x.Protocol
	repeatable := x.Scenario.isClient(x.p) && x.client().RepeatableRead
	switch {
	case repeatable && !pr.SnapshotTrusted && !pr.MarkingTakesLock:
		// Marked, looking at nothing: the lock would prove nothing to it.
		x.append(marksUnlooked, true)
	case repeatable && !pr.SnapshotTrusted:
		x.begins(func(me *process) { me.at, me.marks = enqueueLock, true })
	case pr.EnqueueLooksBeforeLocking && !repeatable:
		x.to(enqueueLock, looksForJobs, func(t *State, me *process) { me.saw = t.catalogsWaiting(x.p) })
	default:
		x.begins(func(me *process) { me.at = enqueueLock })
	}
}

// begins goes on to a place at which the process may have to wait.
func (x *stepper) begins(change func(me *process)) {
	t := *x.s
	change(&t.procs[x.p])
	y := *x
	y.s, y.me = &t, &t.procs[x.p]
	if y.waitsFor(&t, x.p) != 0 {
		x.emit(&t, begins)
		return
	}
	y.program()
}

func (x *stepper) enqueue() {
	c, pr := x.me.cat, &x.Protocol
	switch x.me.at {
	case enqueueLock:
		x.to(enqueueLook, locksShared, func(t *State, _ *process) {
			if !pr.EnqueueTakesNoLock {
				x.catalogLock(t).take(x.p, false)
			}
		})
	case enqueueLook:
		switch {
		case x.me.marks:
			x.append(marksUnlooked, true)
		case x.sees():
			// The addition is written in the same step: until the commit nobody sees it, so nothing can come between.
			x.append(seesWaiting, false)
		default:
			next := enqueueCreate
			if x.me.creates {
				next = enqueueInsert
			}
			x.to(next, seesNone, nil)
		}
	case enqueueCreate:
		if !pr.EnqueueTakesNoCreating && x.creatingLock(x.s).inTheWay(x.p, true) != 0 {
			x.append(marksNotCreating, true)
			return
		}
		if pr.EnqueueDoesNotAsk || pr.EnqueueTakesNoCreating {
			x.mayCreate(getsCreating)
			return
		}
		x.to(enqueueAsk, getsCreating, func(t *State, _ *process) { x.creatingLock(t).take(x.p, true) })
	case enqueueAsk:
		if !x.isAlone() {
			x.append(marksBeside, true)
			return
		}
		x.mayCreate(isAlone)
	case enqueueInsert:
		if _, taken := x.s.unique(x.p, c, -1); taken {
			if pr.EnqueueInsertsOrFails || pr.EnqueueLooksBeforeLocking || x.repeatableRead() {
				x.fail(duplicate)
				return
			}
			x.to(enqueueLook, findsTaken, func(_ *State, me *process) { me.passed, me.creates = false, false })
			return
		}
		x.to(open, insertsJob, func(t *State, me *process) {
			t.insertJob(x.p, c, version{status: pending, ids: x.takeAlong(t, me)})
			x.through(me)
		})
	}
}

// mayCreate goes on to insert the job, after another look: a job may have been committed since, and who had "creating" be gone.
func (x *stepper) mayCreate(l label) {
	next := enqueueLook
	if x.Protocol.EnqueueLooksOnce {
		next = enqueueInsert
	}
	x.to(next, l, func(t *State, me *process) {
		me.creates = true
		if !x.Protocol.EnqueueTakesNoCreating {
			x.creatingLock(t).take(x.p, true)
		}
	})
}

// sees says whether a job waits, by the snapshot that the protocol goes by.
func (x *stepper) sees() bool {
	client := x.Scenario.isClient(x.p)
	if client && x.client().RepeatableRead || x.Protocol.EnqueueLooksBeforeLocking && client {
		// What it has written itself it sees in any snapshot.
		own := x.s.waiting(x.p, x.me.cat)
		return x.me.saw&(1<<x.me.cat) != 0 || own >= 0 && x.s.jobs[own].by == x.p
	}
	return x.s.waiting(x.p, x.me.cat) >= 0
}

func (x *stepper) append(l label, marked bool) {
	x.to(open, l, func(t *State, me *process) {
		from := me.job != 0
		t.insertAdd(x.p, addition{marked: marked, from: from, ids: x.takeAlong(t, me), cat: me.cat})
		x.through(me)
	})
}

// takeAlong is what is enqueued: a client's new id, or the ids of the job that is requeued, which ends here as merged.
func (x *stepper) takeAlong(t *State, me *process) ids {
	if me.job == 0 {
		id := x.Scenario.id(x.p, me.op)
		me.writes |= id
		return id
	}
	j := &t.jobs[me.job-1]
	of := j.is.ids
	j.is, j.wrote = version{}, true
	return of
}
