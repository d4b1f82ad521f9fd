package locks

// beginRequeue locks the row of some RUNNING job: a refusal, a failure or a rescue.
func (x *stepper) beginRequeue(of status) {
	if x.s.requeues == 0 {
		return
	}
	for i := range x.s.jobs {
		if j := &x.s.jobs[i]; j.was.status == of && j.by == nobody {
			x.to(requeueTry, picksRunning, func(t *State, me *process) {
				t.requeues--
				t.jobs[i].by, me.job, me.cat = x.p, uint8(i+1), j.cat
			})
		}
	}
}

// requeue is requeue(): back to PENDING if nobody is adding and nothing waits, else merged.
func (x *stepper) requeue() {
	c, pr := x.me.cat, &x.Protocol
	switch x.me.at {
	case requeueTry:
		switch {
		case x.repeatableRead():
			x.beginEnqueue() // an old snapshot shows nothing
		case pr.RequeueTakesNoLock:
			x.to(requeueLook, triesQuiet, nil)
		case pr.RequeueLooksBeforeLocking && !x.me.snap:
			x.to(requeueTry, looksForJobs, func(t *State, me *process) { me.snap, me.saw = true, t.catalogsWaiting(x.p) })
		default:
			x.try(requeueLook, enqueueLock)
		}
	case replayLock:
		x.to(replayCreate, locksShared, func(t *State, _ *process) { x.catalogLock(t).take(x.p, false) })
	case replayCreate:
		if pr.ReplayTakesNoCreating {
			x.to(requeueLook, getsCreating, nil)
			return
		}
		if x.creatingLock(x.s).inTheWay(x.p, true) != 0 {
			x.to(enqueueLock, missesCreating, nil)
			return
		}
		next := replayAsk
		if pr.ReplayDoesNotAsk {
			next = requeueLook
		}
		x.to(next, getsCreating, func(t *State, _ *process) { x.creatingLock(t).take(x.p, true) })
	case replayAsk:
		if !x.isAlone() {
			x.to(enqueueLock, isNotAlone, nil)
			return
		}
		x.to(requeueLook, isAlone, nil)
	case requeueLook:
		waits := x.s.waiting(x.p, c) >= 0
		if pr.RequeueLooksBeforeLocking {
			waits = x.me.saw&(1<<c) != 0
		}
		if waits && !pr.RequeueDoesNotLook {
			x.to(enqueueLock, looksTaken, nil)
			return
		}
		x.to(requeueReturn, looksFree, nil)
	case requeueReturn:
		if _, taken := x.s.unique(x.p, c, int(x.me.job)-1); taken {
			if x.Scenario.isClient(x.p) && !pr.ReplayUpdatesOrFails {
				x.to(enqueueLock, findsTaken, func(_ *State, me *process) { me.passed = false })
				return
			}
			x.fail(duplicate)
			return
		}
		x.to(open, returnsJob, func(t *State, me *process) {
			x.catalogLock(t).take(x.p, false) // the guard's
			if x.creatingLock(t).inTheWay(x.p, true) == 0 {
				x.creatingLock(t).take(x.p, true)
			} else {
				x.goBeside(t)
			}
			j := &t.jobs[me.job-1]
			j.is.status, j.wrote = pending, true
			x.through(me)
		})
	}
}

func (x *stepper) repeatableRead() bool {
	return x.Scenario.isClient(x.p) && x.client().RepeatableRead
}

// beginWake is wake_catalog, for either catalog.
func (x *stepper) beginWake() {
	if x.s.releases == 0 {
		return
	}
	for c := range catalog(maxCats) {
		i := x.s.waiting(x.p, c)
		switch {
		case i >= 0 && x.s.jobs[i].by == nobody && !x.s.jobs[i].was.successor:
			x.to(ready, wakesJob, func(t *State, me *process) {
				t.releases--
				t.jobs[i].by, t.jobs[i].wrote, me.cat = x.p, true, c
			})
		case i >= 0 && x.s.jobs[i].by == nobody:
			x.to(wakeLook, wakeSeesSuccessor, func(t *State, me *process) {
				t.releases--
				t.jobs[i].by, me.job, me.cat = x.p, uint8(i+1), c
			})
		case x.s.additions(x.p, c) != 0:
			x.to(wakeLook, wakeSeesNoJob, func(t *State, me *process) {
				t.releases--
				me.cat = c
			})
		}
	}
}

func (x *stepper) wake() {
	switch x.me.at {
	case wakeLook:
		x.to(wakeTake, looksForAdditions, func(t *State, me *process) {
			for i := range t.adds {
				if a := &t.adds[i]; a.cat == me.cat && a.from && a.seen(x.p) {
					me.found |= 1 << i
				}
			}
		})
	case wakeTake:
		x.to(ready, wakesAdditions, func(t *State, me *process) {
			for i := range t.adds {
				if a := &t.adds[i]; me.found&(1<<i) != 0 && a.was && a.by == nobody &&
					(a.marked || me.job != 0 || x.Protocol.ReleaseLocksUnmarked) {
					a.by = x.p
				}
			}
			me.found = 0
		})
	}
}
