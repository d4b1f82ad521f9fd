package waking

const (
	maxWorkers = 3
	maxClients = 3
)

// rest is where a worker stands.
type rest uint8

const (
	awake    rest = iota // about to look
	reserved             // has a job's row locked, not committed
	wishing              // has found nothing and is about to say that it wants to be told
	lining               // about to ask for the barrier
	waiting              // for the barrier
	holding              // it
	stopping             // about to take its wish back
	resting              // about to take its wish back, as it does not listen; then it sleeps
	full                 // no slot is free, maybe for ever
	asleep               // until the bell rings
	frozen               // for ever; its sessions live on
	dead
)

// line is the state of a worker's listening connection.
type line uint8

const (
	up      line = iota
	down         // hears nothing
	resume       // half way up: listens already and has not looked yet; with LooksBeforeListening the other way round
	reserve      // connected, without a seat
	queued       // waits for a seat that was taken: the one in worker.seat
	seated       // has a seat and does not listen yet
)

// listens says whether notifications come in.
func (l line) listens() bool { return l == up || l == resume }

type worker struct {
	at    rest
	wants bool  // as the worker believes: its wish is committed
	armed bool  // it has passed the barrier since
	wish  bool  // wants_notify, as committed
	late  bool  // a statement that takes the wish back is under way, and nobody waits for its answer
	bell  bool  // rung, and not looked since
	job   uint8 // the client whose job it has locked, plus one
	note  note
	line  line

	// Where there are seats:
	sits    bool  // the loop wants its listener to have one
	seat    uint8 // it has, or with queued waits for; from 1
	forgets bool  // with RisesAndForgets: it has risen since its last look
}

// note is where a worker stands that says that somebody may sleep, or that nobody does.
type note uint8

const (
	quiet   note = iota
	setting      // has said that somebody may, and holds the lock shared; its wish is not committed
	saying       // has taken its wish back, and is about to say that nobody sleeps
	alone        // has the lock alone
	looked       // with SaysWithoutLock and SaysWithoutLook: has seen no wish
	noLock       // has said either without the lock, not committed
)

// step is where a client stands.
type step uint8

const (
	idle      step = iota
	open           // its job is inserted; it may stay here for ever
	trigger        // the deferred trigger runs: about to try the barrier
	looking        // has it, or knows that it can't: about to look for wishes
	decided        // about to commit, or open again when the constraint was immediate
	committed      // visible, its locks held
	unlocked       // only with LocksEndBeforeCommit
	telling        // about to deliver its notification
)

type client struct {
	at       step
	barrier  bool // held, shared
	notifies bool
	early    bool // its trigger has run already
	saw      bool // a wish, by a snapshot taken earlier
	snapped  bool // that snapshot is taken
}

// job is the one of each client.
type job uint8

const (
	none job = iota
	inserted
	due
	locked // by a worker that has not committed
)

// State is everything.
type State struct {
	workers [maxWorkers]worker
	clients [maxClients]client
	jobs    [maxClients]job
	deaths  uint8 // that may still happen
	cuts    uint8 // of a listening connection, or of a seat's session
	fails   uint8 // statements that take a wish back and fail at their commit
	nobody  bool  // it is said that nobody sleeps
}

// others says whether another worker wishes to be told, as committed.
func (s *State) others(i int) bool {
	for k := range s.workers {
		if k != i && s.workers[k].wish {
			return true
		}
	}
	return false
}

// noted says whether another worker holds the lock of that: at all, or alone.
func (s *State) noted(i int) (held, exclusive bool) {
	for k := range s.workers {
		if k != i {
			n := s.workers[k].note
			held, exclusive = held || n == setting || n == alone, exclusive || n == alone
		}
	}
	return held, exclusive
}

func (s *State) wishes() bool {
	for i := range s.workers {
		if s.workers[i].wish {
			return true
		}
	}
	return false
}

// free says whether nobody has a seat.
func (s *State) free(seat uint8) bool {
	for i := range s.workers {
		if s.workers[i].seat == seat && s.workers[i].line != queued {
			return false
		}
	}
	return true
}

// barrierShared says whether a client can have the barrier now: not while somebody waits for it exclusively.
func (s *State) barrierShared() bool {
	for i := range s.workers {
		if at := s.workers[i].at; at == waiting || at == holding {
			return false
		}
	}
	return true
}

// barrierExclusive says whether the next worker in line can have it.
func (s *State) barrierExclusive() bool {
	for i := range s.clients {
		if s.clients[i].barrier {
			return false
		}
	}
	for i := range s.workers {
		if s.workers[i].at == holding {
			return false
		}
	}
	return true
}

// tidy makes states one that differ in nothing that matters: a worker that looks before it sleeps need not know that its bell
// has rung.
func (m *Model) tidy(s *State) {
	if m.Protocol.RisesAndForgets {
		return
	}
	for i := range s.workers {
		switch w := &s.workers[i]; w.at {
		case awake, reserved, stopping, full:
			w.bell = false
		case wishing, lining, waiting, holding:
			w.bell = w.bell && m.Protocol.NoLookAfterBarrier
		}
	}
}
