package locks

func (x *stepper) client() *Client { return &x.Scenario.Clients[x.p] }

func (x *stepper) beginClient() { x.call() }

// between is a client in its open transaction: the next call, or the end of it, or nothing for ever.
func (x *stepper) between() {
	if int(x.me.op) < len(x.client().Calls) {
		x.call()
	}
	x.commit(ended)
	if !x.client().Commits {
		x.rollback(ended, rollsBack, nil)
	}
}

// call begins the next call of the script.
func (x *stepper) call() {
	c := x.client().Calls[x.me.op]
	if x.client().RepeatableRead && !x.me.snap {
		x.to(open, opensWithOldSnapshot, func(t *State, me *process) {
			me.snap = true
			if x.Protocol.SnapshotTrusted {
				me.saw = t.catalogsWaiting(x.p)
			}
		})
		return
	}
	var y stepper // as x, having begun the call
	t := *x.s
	me := &t.procs[x.p]
	me.cat = c.Catalog
	y = *x
	y.s, y.me = &t, me
	switch c.Do {
	case Enqueue:
		y.beginEnqueue()
		return
	case Insert:
		me.at = guardLock
	case Cancel:
		me.at = cancelRow
	case Lock:
		me.at = lockRows
	case Replay:
		for i := range t.jobs {
			if j := &t.jobs[i]; j.cat == c.Catalog && j.was.status == failed && j.by == nobody {
				y.to(y.replayFirst(), picksFailed, func(t *State, me *process) { t.jobs[i].by, me.job = y.p, uint8(i+1) })
			}
		}
		return
	}
	// The first thing that the call does; when it must wait for it, only that it has begun.
	if y.waitsFor(&t, x.p) != 0 {
		x.emit(&t, begins)
		return
	}
	y.program()
}

// replayFirst is what a replay does first. It may be part of a long transaction, so it goes the way of a first enqueue; with
// an old snapshot it may only be merged.
func (x *stepper) replayFirst() place {
	switch {
	case x.repeatableRead() || x.Protocol.ReplayTakesLock:
		return requeueTry
	default:
		return replayLock
	}
}

// through is the end of a call or of a worker's piece of work.
func (x *stepper) through(me *process) {
	if !x.Scenario.isClient(x.p) {
		me.at, me.passed = ready, false
		return
	}
	next := process{at: open, op: me.op + 1, cat: me.cat, writes: me.writes, snap: me.snap}
	if x.Protocol.SnapshotTrusted && x.client().RepeatableRead {
		next.saw = me.saw
	}
	*me = next
}

// raw is a plain INSERT of a waiting job, with the guard's locks.
func (x *stepper) raw() {
	pr := &x.Protocol
	switch x.me.at {
	case guardLock:
		x.to(guardCreate, guardLocks, func(t *State, _ *process) {
			if !pr.RawTakesNoLock {
				x.catalogLock(t).take(x.p, false)
			}
		})
	case guardCreate:
		if x.creatingLock(x.s).inTheWay(x.p, true) != 0 {
			next := guardBeside
			if pr.RawTakesNoBeside || pr.RawTakesNoCreating {
				next = rawInsert
			}
			x.to(next, guardMisses, nil)
			return
		}
		x.to(rawInsert, guardCreates, func(t *State, _ *process) {
			if !pr.RawTakesNoCreating {
				x.creatingLock(t).take(x.p, true)
			}
		})
	case guardBeside:
		x.to(rawInsert, guardGoesBeside, func(t *State, _ *process) { x.goBeside(t) })
	case rawInsert:
		if _, taken := x.s.unique(x.p, x.me.cat, -1); taken {
			x.rollback(ended, rawFails, nil)
			return
		}
		x.to(open, rawInserts, func(t *State, me *process) {
			id := x.Scenario.id(x.p, me.op)
			t.insertJob(x.p, me.cat, version{status: pending, ids: id})
			me.writes |= id
			x.through(me)
		})
	}
}

// goBeside takes the lock "beside". Whoever has asked for it already, and has not written its row yet, is passed.
func (x *stepper) goBeside(t *State) {
	*x.besideLock(t) |= 1 << x.p
	q := x.creatingLock(t).exclusive
	if q == nobody || q == x.p || t.procs[q].cat != x.me.cat {
		return
	}
	switch at := t.procs[q].at; {
	case at == enqueueInsert, at == enqueueLook && t.procs[q].creates, at == requeueLook, at == requeueReturn:
		t.procs[q].passed = true
	}
}

// isAlone says whether nobody else has the lock "beside".
func (x *stepper) isAlone() bool { return *x.besideLock(x.s)&^(1<<x.p) == 0 }

// cancel is cancel() of the catalog's waiting job.
func (x *stepper) cancel() {
	c := x.me.cat
	switch x.me.at {
	case cancelRow:
		i := x.s.waiting(x.p, c)
		if i < 0 {
			x.to(open, findsNothingToCancel, func(_ *State, me *process) { x.through(me) })
			return
		}
		x.to(cancelTry, locksJobToCancel, func(t *State, me *process) { t.jobs[i].by, me.job = x.p, uint8(i+1) })
	case cancelTry:
		if x.Protocol.CancelTakesLock {
			x.try(cancelFold, cancelFold)
			return
		}
		x.to(cancelTake, looksForAdditions, func(t *State, me *process) { me.found = t.additions(x.p, c) })
	case cancelFold:
		x.to(cancelTake, looksForAdditions, func(t *State, me *process) { me.found = t.additions(x.p, c) })
	case cancelTake:
		x.to(cancelLeave, takesAdditions, func(t *State, me *process) {
			j := &t.jobs[me.job-1]
			taken, _ := x.fold(t, me)
			j.is = version{status: failed, ids: j.is.ids | taken}
			j.wrote = true
		})
	case cancelLeave:
		if x.me.quiet || x.Protocol.CancelLeavesNoSuccessor {
			x.to(open, needsNoSuccessor, func(_ *State, me *process) { x.through(me) })
			return
		}
		x.leaveSuccessor(func(me *process) { x.through(me) })
	}
}

// lockRows is a person at a prompt.
func (x *stepper) lockRows() {
	x.to(open, locksAdditions, func(t *State, me *process) {
		for i := range t.adds {
			if a := &t.adds[i]; a.cat == me.cat && a.was && a.by == nobody {
				a.by = x.p
			}
		}
		x.through(me)
	})
}

func (s *State) catalogsWaiting(p proc) (saw set) {
	for c := range catalog(maxCats) {
		if s.waiting(p, c) >= 0 {
			saw |= 1 << c
		}
	}
	return saw
}
