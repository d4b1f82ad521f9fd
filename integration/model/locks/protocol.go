package locks

// Protocol is the protocol of triggers/, each field one line of it left out or done otherwise. The zero value is the real
// one.
type Protocol struct {
	// enqueue
	EnqueueTakesNoLock        bool
	EnqueueLooksBeforeLocking bool // lock and look in one statement: its snapshot is older than the lock
	EnqueueTakesNoCreating    bool
	EnqueueWaitsForCreating   bool
	EnqueueDoesNotAsk         bool // whether a plain INSERT is beside it
	EnqueueLooksOnce          bool // and not again when it has got "creating"
	EnqueueInsertsOrFails     bool // no ON CONFLICT DO NOTHING
	SnapshotTrusted           bool // REPEATABLE READ looks, by its snapshot, instead of marking
	MarkingTakesLock          bool // REPEATABLE READ takes the catalog's lock, though it doesn't look

	// plain SQL
	RawTakesNoLock     bool
	RawTakesNoCreating bool
	RawTakesNoBeside   bool

	// reserve
	TakenAsItIsUnlocked    bool // a job that nobody has joined is taken without a fold though somebody is adding
	JoinedTakenAsItIs      bool // so is one that somebody has joined
	AloneBeforeLocking     bool // whether somebody has joined is looked at before the lock is tried
	NoSuccessor            bool // though somebody is adding
	NoSuccessorForPassed   bool // though additions were passed over, since somebody has their rows locked
	SuccessorGoesUnasked   bool // deleted when there is nothing to take, whoever is adding
	SuccessorTakesLock     bool // its INSERT goes through the guard
	EmptySuccessorRuns     bool // a successor runs though all its additions are locked by others
	ReserveWaitsForLock    bool
	ReserveTakesNoLock     bool // and so believes that nobody is adding
	FoldWaits              bool // FOR UPDATE without SKIP LOCKED
	FoldLeavesMarked       bool
	MarkedWaitForJob       bool // no job is made of marked additions
	MarkedRunBesideWaiting bool // a job is made of marked additions though one waits

	// requeue
	RequeueTakesNoLock        bool
	RequeueWaitsForLock       bool
	RequeueLooksBeforeLocking bool
	RequeueDoesNotLook        bool

	// calls of clients
	CancelLeavesNoSuccessor bool
	CancelTakesLock         bool // exclusively, to know whether a successor is needed
	ReplayTakesLock         bool // exclusively, as a worker's requeue does
	ReplayTakesNoCreating   bool
	ReplayDoesNotAsk        bool // whether a plain INSERT is beside it
	ReplayUpdatesOrFails    bool // instead of being merged when a job of plain SQL came first

	// release
	ReleaseLocksUnmarked bool // wakes unmarked additions though it couldn't lock their job

	// Strict forgives nothing to plain SQL; see Model.forgives.
	Strict bool

	// PostgreSQL itself, to see that the model depends on it
	LocksEndBeforeCommit bool
}
