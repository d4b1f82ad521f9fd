package locks

// lock is an advisory lock.
type lock struct {
	shared    set
	exclusive proc
	queue     set // who waits for it exclusively: newcomers stand behind them
}

func (l *lock) holders() set {
	if l.exclusive != nobody {
		return l.shared | 1<<l.exclusive
	}
	return l.shared
}

// inTheWay is who keeps p from getting the lock: who holds it in a mode that excludes p's, and who waits for it before p.
// Nobody is in his own way.
func (l *lock) inTheWay(p proc, exclusive bool) set {
	me := set(1) << p
	if l.holders()&me != 0 && (l.exclusive == p || !exclusive) {
		return 0 // held as strongly already
	}
	var others set
	if exclusive {
		others = l.holders()
	} else if l.exclusive != nobody {
		others = 1 << l.exclusive
	}
	if l.queue&me == 0 && l.shared&me == 0 {
		others |= l.queue
	}
	return others &^ me
}

func (l *lock) take(p proc, exclusive bool) {
	if exclusive {
		l.exclusive = p
		l.queue &^= 1 << p
	} else {
		l.shared |= 1 << p
	}
}

func (l *lock) release(p proc) {
	l.shared &^= 1 << p
	l.queue &^= 1 << p
	if l.exclusive == p {
		l.exclusive = nobody
	}
}
