package locks

import "math/bits"

func (x *stepper) beginWorker() {
	switch x.worker() {
	case Reserve1, Reserve2:
		x.beginReserve()
	case Requeue:
		x.beginRequeue(running)
	case ReleaseOf:
		x.beginWake()
	}
}

// beginReserve looks for waiting jobs. Time is not in the model: any of those that are seen may be the ones that are due.
func (x *stepper) beginReserve() {
	var seen set
	for i := range x.s.jobs {
		if x.s.jobs[i].was.status == pending {
			seen |= 1 << i
		}
	}
	batch := 1
	if x.worker() == Reserve2 {
		batch = 2
	}
	for size := batch; size > 0; size-- {
		for some := seen; some != 0; some = (some - 1) & seen {
			if bits.OnesCount8(uint8(some)) == size {
				x.to(reserveRow, looksForJobs, func(_ *State, me *process) { me.todo = some })
			}
		}
	}
	x.lookForMarked()
}

// reserve is stands_alone and reserve_refresh, for one job after the other.
func (x *stepper) reserve() {
	c, pr := x.me.cat, &x.Protocol
	switch x.me.at {
	case reserveRow:
		if x.me.todo == 0 {
			x.to(markedLook, jobsGone, nil)
		}
		for i := range x.s.jobs {
			if x.me.todo&(1<<i) != 0 {
				x.lockRow(i)
			}
		}
	case reserveGlance:
		x.to(reserveTry, looksForAdditions, func(t *State, me *process) { me.found = t.additions(x.p, c) })
	case reserveTry:
		switch {
		case x.s.jobs[x.me.job-1].was.successor:
			x.try(reserveCount, reserveCount)
		case pr.TakenAsItIsUnlocked:
			x.try(reserveAlone, reserveAlone)
		default:
			x.try(reserveAlone, reserveFold)
		}
	case reserveAlone:
		joined := x.s.additions(x.p, c) != 0
		if pr.AloneBeforeLocking {
			joined = x.me.found != 0
		}
		if joined && !pr.JoinedTakenAsItIs {
			x.to(reserveFold, isJoined, nil)
			return
		}
		x.to(reserveRow, takesAsItIs, func(t *State, me *process) {
			j := &t.jobs[me.job-1]
			j.is, j.wrote = version{status: running, ids: j.is.ids}, true
			me.got++
			x.nextJob(me)
		})
	case reserveCount:
		switch {
		case x.s.additions(x.p, c) != 0:
			x.to(reserveFold, countsAdditions, nil)
		case x.me.quiet || pr.SuccessorGoesUnasked:
			x.to(reserveRow, deletesSuccessor, func(t *State, me *process) {
				j := &t.jobs[me.job-1]
				j.is, j.wrote = version{}, true
				x.nextJob(me)
			})
		default:
			x.putOff()
		}
	case reserveFold:
		x.to(reserveTake, looksForAdditions, func(t *State, me *process) { me.found = t.additions(x.p, c) })
	case reserveTake:
		t := *x.s
		me := &t.procs[x.p]
		taken, more := x.fold(&t, me)
		j := &t.jobs[me.job-1]
		if taken == 0 && j.was.successor && !pr.EmptySuccessorRuns {
			x.putOff()
			return
		}
		j.is = version{status: running, ids: j.is.ids | taken}
		j.wrote, me.more, me.at = true, more, reserveLeave
		x.emit(&t, reserves)
	case reserveLeave:
		leave := x.me.more || !x.me.quiet && !pr.NoSuccessor || !pr.NoSuccessorForPassed && x.s.additions(x.p, c) != 0
		if !leave {
			x.to(reserveRow, needsNoSuccessor, func(_ *State, me *process) {
				me.got++
				x.nextJob(me)
			})
			return
		}
		x.leaveSuccessor(func(me *process) {
			me.got++
			x.nextJob(me)
		})
	}
}

func (x *stepper) lockRow(i int) {
	j := &x.s.jobs[i]
	if j.by != nobody || j.was.status != pending {
		x.to(reserveRow, passesJob, func(_ *State, me *process) {
			me.cat = j.cat
			me.todo &^= 1 << i
			x.nextJob(me)
		})
		return
	}
	next := reserveTry
	if x.Protocol.AloneBeforeLocking {
		next = reserveGlance
	}
	x.to(next, locksJob, func(t *State, me *process) {
		t.jobs[i].by, me.job, me.cat = x.p, uint8(i+1), j.cat
		me.todo &^= 1 << i
	})
}

// nextJob goes on with the next job of the batch, or with marked additions, or ends.
func (x *stepper) nextJob(me *process) {
	me.job, me.quiet, me.found, me.more = 0, false, 0, false
	batch := uint8(1)
	if x.worker() == Reserve2 {
		batch = 2
	}
	switch {
	case me.todo != 0:
		me.at = reserveRow
	case me.got < batch:
		me.at = markedLook
	default:
		me.at = ready
	}
}

func (x *stepper) putOff() {
	x.to(reserveRow, putsOffSuccessor, func(t *State, me *process) {
		t.jobs[me.job-1].wrote = true
		x.nextJob(me)
	})
}

// try tries the catalog's lock exclusively.
func (x *stepper) try(got, not place) {
	reserving := x.Scenario.isClient(x.p) || x.worker() == Reserve1 || x.worker() == Reserve2
	if reserving && x.Protocol.ReserveTakesNoLock {
		x.to(got, triesQuiet, func(_ *State, me *process) { me.quiet = true })
		return
	}
	if x.catalogLock(x.s).inTheWay(x.p, true) != 0 {
		x.to(not, triesNotQuiet, func(_ *State, me *process) { me.quiet = false })
		return
	}
	x.to(got, triesQuiet, func(t *State, me *process) {
		me.quiet = true
		x.catalogLock(t).take(x.p, true)
	})
}

// fold takes those additions that the look has found and that nobody has locked.
func (x *stepper) fold(t *State, me *process) (taken ids, more bool) {
	for i := range t.adds {
		a := &t.adds[i]
		switch {
		case me.found&(1<<i) == 0 || !a.seen(x.p) || a.by != nobody && a.by != x.p:
		case x.Protocol.FoldLeavesMarked && a.marked && me.at != markedTake:
		case x.Scenario.FewIDs && taken != 0:
			more = true
		default:
			taken |= a.ids
			a.is, a.by = false, x.p
			if !a.was {
				t.dropAdd(i)
			}
		}
	}
	me.found = 0
	return taken, more
}

// leaveSuccessor inserts an empty waiting job in the place of the one that this transaction has taken.
func (x *stepper) leaveSuccessor(then func(me *process)) {
	if _, taken := x.s.unique(x.p, x.me.cat, -1); taken {
		x.fail(duplicate)
		return
	}
	x.to(open, leavesSuccessor, func(t *State, me *process) {
		if x.Protocol.SuccessorTakesLock {
			x.catalogLock(t).take(x.p, false)
		}
		t.insertJob(x.p, me.cat, version{status: pending, successor: true})
		then(me)
	})
}

// lookForMarked is the search of reserve_all_marked: marked additions for which no job waits.
func (x *stepper) lookForMarked() {
	if x.Protocol.MarkedWaitForJob {
		return
	}
	for i := range x.s.adds {
		a := &x.s.adds[i]
		if a.marked && a.seen(x.p) && (x.Protocol.MarkedRunBesideWaiting || x.s.waiting(x.p, a.cat) < 0) {
			x.to(markedRow, looksForMarked, func(_ *State, me *process) { me.found, me.cat = 1<<i, a.cat })
		}
	}
}

// reserveMarked is reserve_marked.
func (x *stepper) reserveMarked() {
	switch x.me.at {
	case markedLook:
		found := false
		y := *x
		y.emit = func(t *State, l label) {
			found = true
			x.emit(t, l)
		}
		y.lookForMarked()
		if !found {
			x.to(ready, findsNoMarked, nil)
		}
	case markedRow:
		if x.me.found == 0 {
			x.to(ready, passesMarked, nil)
			return
		}
		i := bits.TrailingZeros8(uint8(x.me.found))
		if a := &x.s.adds[i]; !a.was || a.by != nobody && a.by != x.p {
			x.to(ready, passesMarked, func(_ *State, me *process) { me.found = 0 })
			return
		}
		x.to(markedFold, locksMarked, func(t *State, me *process) { t.adds[i].by, me.found = x.p, 0 })
	case markedFold:
		x.to(markedTake, looksForAdditions, func(t *State, me *process) { me.found = t.additions(x.p, me.cat) })
	case markedTake:
		x.to(ready, runsMarked, func(t *State, me *process) {
			me.at = markedTake
			taken, _ := x.fold(t, me)
			me.at = ready
			t.insertJob(x.p, me.cat, version{status: running, ids: taken})
		})
	}
}
