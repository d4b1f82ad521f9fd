package locks

// place is where a process stands in its program: what it does next.
type place uint8

const (
	idle      place = iota // no transaction: a worker that rests, a client that has not begun
	open                   // a client in its transaction, between two calls: it may stay here for ever
	ended                  // a client that is through
	committed              // its commit is visible, its advisory locks are still held
	unlocked               // only with LocksEndBeforeCommit: the other way round
	ready                  // a worker about to commit

	// add_price_refresh
	enqueueLock
	enqueueLook
	enqueueCreate
	enqueueAsk // whether somebody is beside it
	enqueueInsert

	// a plain INSERT
	guardLock
	guardCreate
	guardBeside
	rawInsert

	// cancel
	cancelRow
	cancelTry
	cancelFold
	cancelTake
	cancelLeave

	lockRows

	// reserve: stands_alone and reserve_refresh for each job, then reserve_marked
	reserveRow
	reserveGlance // only with AloneBeforeLocking
	reserveTry
	reserveAlone
	reserveCount
	reserveFold
	reserveTake
	reserveLeave
	markedLook
	markedRow
	markedFold
	markedTake

	// requeue
	requeueTry
	replayLock
	replayCreate
	replayAsk
	requeueLook
	requeueReturn

	// wake_catalog
	wakeLook
	wakeTake
)

// label is what is said of a step.
type label uint8

const (
	begins label = iota
	looksForJobs
	opensWithOldSnapshot
	locksShared
	seesWaiting
	seesNone
	marksUnlooked
	marksNotCreating
	marksBeside
	insertsJob
	findsTaken
	getsCreating
	missesCreating
	isAlone
	isNotAlone
	queuesFor
	appends
	rawInserts
	rawFails
	guardLocks
	guardCreates
	guardMisses
	guardGoesBeside
	findsNothingToCancel
	locksJobToCancel
	triesQuiet
	triesNotQuiet
	looksForAdditions
	takesAdditions
	leavesSuccessor
	cancels
	locksAdditions
	locksJob
	passesJob
	jobsGone
	deletesSuccessor
	putsOffSuccessor
	countsAdditions
	isJoined
	takesAsItIs
	reserves
	needsNoSuccessor
	looksForMarked
	findsNoMarked
	locksMarked
	passesMarked
	runsMarked
	picksRunning
	picksFailed
	looksFree
	looksTaken
	returnsJob
	merges
	wakesJob
	wakeSeesNoJob
	wakeSeesSuccessor
	wakesAdditions
	commits
	endsLocks
	endsTransaction
	rollsBack
	dies
	failsDuplicate
)

var said = map[label]string{
	begins:               "begins",
	looksForJobs:         "looks for waiting jobs",
	opensWithOldSnapshot: "takes its snapshot",
	locksShared:          "takes the lock of catalog %c, shared",
	seesWaiting:          "sees a waiting job of catalog %c and appends an addition",
	seesNone:             "sees no waiting job of catalog %c",
	marksUnlooked:        "appends a marked addition to catalog %c",
	marksNotCreating:     "doesn't get \"creating\" of catalog %c and appends a marked addition",
	marksBeside:          "finds that somebody is beside it in the stripe of catalog %c and appends a marked addition",
	insertsJob:           "inserts a waiting job of catalog %c",
	findsTaken:           "finds that catalog %c has a waiting job by now",
	getsCreating:         "gets \"creating\" of catalog %c",
	missesCreating:       "doesn't get \"creating\" of catalog %c: its job must be merged",
	isAlone:              "finds that nobody is beside it in the stripe of catalog %c",
	isNotAlone:           "finds that somebody is beside it in the stripe of catalog %c: its job must be merged",
	queuesFor:            "waits for a lock of catalog %c, exclusively",
	rawInserts:           "inserts, by plain SQL, a waiting job of catalog %c",
	rawFails:             "gets 23505 for its plain INSERT, as it should, and is rolled back",
	guardLocks:           "is about to insert by plain SQL: the trigger takes the lock of catalog %c, shared",
	guardCreates:         "…and \"creating\" of catalog %c",
	guardMisses:          "…and can't get \"creating\" of catalog %c",
	guardGoesBeside:      "…and goes on without, beside whoever has it",
	findsNothingToCancel: "finds nothing to cancel in catalog %c",
	locksJobToCancel:     "is about to cancel catalog %c's waiting job and has locked its row",
	triesQuiet:           "gets the lock of catalog %c, exclusively: nobody is adding",
	triesNotQuiet:        "doesn't get the lock of catalog %c: somebody is adding",
	looksForAdditions:    "looks for additions of catalog %c",
	takesAdditions:       "takes those that nobody has locked",
	leavesSuccessor:      "leaves a successor in catalog %c",
	cancels:              "…and the job is FAILED with them",
	locksAdditions:       "locks the rows of catalog %c's additions by hand",
	locksJob:             "locks the row of catalog %c's waiting job",
	passesJob:            "passes over catalog %c's job: somebody has its row, or it waits no more",
	jobsGone:             "finds that the jobs it saw are gone",
	deletesSuccessor:     "finds nothing for the successor of catalog %c and deletes it",
	putsOffSuccessor:     "finds nothing for the successor of catalog %c and puts it off",
	countsAdditions:      "finds additions for the successor of catalog %c",
	isJoined:             "finds that somebody has joined the job of catalog %c",
	takesAsItIs:          "finds that nobody has joined the job of catalog %c, and takes it as it is: it is RUNNING",
	reserves:             "takes those that nobody has locked; the job of catalog %c is RUNNING",
	needsNoSuccessor:     "leaves no successor in catalog %c",
	looksForMarked:       "finds a marked addition of catalog %c for which no job waits",
	findsNoMarked:        "finds no marked additions without a job",
	locksMarked:          "locks its row",
	passesMarked:         "passes over it: somebody has its row, or it is gone",
	runsMarked:           "takes those that nobody has locked into a RUNNING job of catalog %c",
	picksRunning:         "is about to requeue a RUNNING job of catalog %c and has locked its row",
	picksFailed:          "is about to replay a FAILED job of catalog %c and has locked its row",
	looksFree:            "sees no waiting job of catalog %c: its job may return",
	looksTaken:           "sees a waiting job of catalog %c: its job must be merged",
	returnsJob:           "makes its job of catalog %c PENDING again",
	wakesJob:             "finds catalog %c's waiting job and makes it due",
	wakeSeesNoJob:        "can't lock a waiting job of catalog %c",
	wakeSeesSuccessor:    "locks the successor of catalog %c",
	wakesAdditions:       "makes requeued additions of catalog %c due, those that nobody has locked",
	commits:              "commits: what it wrote is visible",
	endsLocks:            "…and its advisory locks end",
	endsTransaction:      "ends without having written anything",
	rollsBack:            "rolls back",
	dies:                 "dies: its transaction is rolled back",
	failsDuplicate:       "gets 23505",
}
