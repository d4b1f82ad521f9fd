package waking

func (m *Model) client(s *State, i int, emit func(*State, label)) {
	c, kind := &s.clients[i], m.Scenario.Clients[i]
	to := func(at step, l label, change func(t *State, c *client)) {
		t := *s
		t.clients[i].at = at
		if change != nil {
			change(&t, &t.clients[i])
		}
		emit(&t, l)
	}
	switch c.at {
	case idle:
		if s.jobs[i] != none {
			return // one job each at a time keeps the model finite
		}
		next := open
		if kind == Immediate || m.Protocol.TriggersRunAtOnce {
			next = trigger
		}
		to(next, inserts, func(t *State, c *client) {
			t.jobs[i] = inserted
			if kind == RepeatableRead && m.Protocol.OldSnapshotLooks {
				c.saw, c.snapped = t.wishes(), true
			}
		})
	case open:
		next := trigger
		if c.early {
			next = decided
		}
		to(next, beginsCommit, nil)
		to(idle, rollsBack, func(t *State, c *client) {
			t.jobs[i] = none
			*c = client{}
		})
	case trigger:
		m.tryBarrier(s, i, to)
	case looking:
		m.lookForWishes(s, i, to)
	case decided:
		if m.Protocol.LocksEndBeforeCommit {
			to(unlocked, letsGo, func(_ *State, c *client) { c.barrier = false })
			return
		}
		to(committed, commits, func(t *State, _ *client) { t.jobs[i] = due })
	case unlocked:
		to(telling, commits, func(t *State, _ *client) { t.jobs[i] = due })
	case committed:
		to(telling, letsGo, func(_ *State, c *client) { c.barrier = false })
	case telling:
		l := saysNothing
		if c.notifies {
			l = tells
		}
		to(idle, l, func(t *State, c *client) {
			for w := range t.workers {
				if c.notifies && m.hears(&t.workers[w]) {
					t.workers[w].bell = true
				}
			}
			*c = client{}
		})
	}
}

// waits says whether a client waits for the barrier.
func (m *Model) waits(s *State, i int) bool {
	return m.Protocol.CommitsWait && s.clients[i].at == trigger && !s.barrierShared()
}

func (m *Model) tryBarrier(s *State, i int, to func(step, label, func(*State, *client))) {
	kind, pr := m.Scenario.Clients[i], &m.Protocol
	after := decided // or back to the client, who keeps the transaction open
	if kind == Immediate || pr.TriggersRunAtOnce {
		after = open
	}
	switch {
	case kind == RepeatableRead:
		to(after, notLooking, func(_ *State, c *client) {
			c.early = after == open
			c.notifies = !pr.OldSnapshotLooks || c.saw
		})
	case pr.AsksBeforeBarrier && !s.clients[i].snapped:
		to(trigger, asksFirst, func(t *State, c *client) { c.snapped, c.saw = true, !t.nobody })
	case pr.CommitsLookFirst && !s.clients[i].snapped:
		to(trigger, snapshotFirst, func(t *State, c *client) { c.snapped, c.saw = true, t.wishes() })
	case m.waits(s, i):
	case pr.CommitsTakeNoBarrier:
		to(looking, triggerRuns, nil)
	case s.barrierShared():
		to(looking, hasBarrier, func(_ *State, c *client) { c.barrier = true })
	case pr.MissedBarrierLooks:
		to(looking, noBarrierLooks, nil)
	default:
		to(after, noBarrier, func(_ *State, c *client) { c.notifies, c.early = true, after == open })
	}
}

func (m *Model) lookForWishes(s *State, i int, to func(step, label, func(*State, *client))) {
	after := decided
	if m.Scenario.Clients[i] == Immediate || m.Protocol.TriggersRunAtOnce {
		after = open
	}
	wished := s.wishes() && !s.nobody
	switch {
	case m.Protocol.AsksBeforeBarrier:
		wished = s.wishes() && s.clients[i].saw
	case m.Protocol.CommitsLookFirst:
		wished = s.clients[i].saw
	}
	l := seesNoWish
	if wished {
		l = seesWish
	}
	to(after, l, func(_ *State, c *client) { c.notifies, c.early, c.saw, c.snapped = wished, after == open, false, false })
}
