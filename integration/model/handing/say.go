package handing

type label uint8

const (
	handsOver label = iota
	findsNobody
	commits
	opens
	knowsIt
	asks
	findsRow
	findsNoRow
	locksIt
	locksNot
	looks
	looksInVain
	hearsNotNow
	hearsAnothers
	starts
	drops
	concludes
	letsGo
	carriesOutLate
	asksForAll
	asksAgain
	leavesIt
	leavesItToListener
	asksBack
	backFinds
	backFindsNone
	backLocks
	backLocksNot
	backGives
	backLets
	startsBack
	putsOff
	losesAnswer
	backLate
	hangsUp
	seesItsEnd
	passesBarrier
	isTold
	isForged
	takesAnothers
	reads
	leaves
	locks
	seesItLives
	seesItGone
	takesOver
	secondConcludes
	rescues
	breaks // of session 1; 2 and 3 follow
	breaks2
	breaks3
	loses
	fades
	freezes
	thaws
	dies
	leaseEnds
)

var said = [...]string{
	handsOver:          "the client's commit sees that session 1 lives, and hands the job to worker 1",
	findsNobody:        "the client's commit finds nobody to hand the job to",
	commits:            "the client's commit is over, and notifies",
	opens:              "worker 1 listens by a new session, and will ask what is RUNNING for it",
	knowsIt:            "worker 1's listener hears of the job, and leaves it: the worker has it, or asks for it",
	asks:               "worker 1's listener hears of the job, and sends take_lock and take_look",
	findsRow:           "take_lock sees that the job is worker 1's",
	findsNoRow:         "take_lock sees that the job is not what this session was handed",
	locksIt:            "take_lock locks the job",
	locksNot:           "take_lock does not get the lock",
	looks:              "take_look finds that the job is worker 1's",
	looksInVain:        "take_look finds that the job is not worker 1's, or was taken back",
	hearsNotNow:        "worker 1's listener has the answer: not now",
	hearsAnothers:      "worker 1 has the answer: the job is not its own",
	starts:             "worker 1's listener has the answer, and starts the job",
	drops:              "worker 1's listener has the answer, and doesn't start the job: it runs already, or its lease is over",
	concludes:          "a handler of worker 1's ends, and concludes the job if the token is still the row's",
	letsGo:             "worker 1's session gives back the lock",
	carriesOutLate:     "the server carries out a take_lock that nobody waits for",
	asksForAll:         "worker 1's loop asks what is RUNNING for it",
	asksAgain:          "worker 1's loop asks later what is RUNNING for it",
	leavesIt:           "worker 1's loop leaves the job alone: the worker runs it",
	leavesItToListener: "worker 1's loop leaves the job alone, and will ask later: its listener asks for it",
	asksBack:           "worker 1's loop asks to take the job back under the token that it was shown",
	backFinds:          "take_back sees that the job is worker 1's under that token",
	backFindsNone:      "take_back sees that the job is not worker 1's under that token",
	backLocks:          "take_back locks the job",
	backLocksNot:       "take_back does not get the lock",
	backGives:          "take_back gives the job a new token of worker 1's",
	backLets:           "take_back ends, and its lock with it",
	startsBack:         "worker 1's loop starts the job that it has taken back",
	putsOff:            "worker 1's loop hears: not now, and will ask later",
	losesAnswer:        "the answer of take_back is lost; worker 1 will ask what is RUNNING for it",
	backLate:           "the server carries out that take_back now",
	hangsUp:            "worker 1 closes its connection, to be in reserve",
	seesItsEnd:         "worker 1 sees that its session has ended",
	passesBarrier:      "the commits are over that may have handed worker 1 a job",
	isTold:             "worker 2 is told of the job by a forged notification",
	isForged:           "worker 1 is told of the job by a forged notification",
	takesAnothers:      "worker 2 is told by a forged notification that the job was handed to it, takes it, and starts it",
	reads:              "worker 2 sees that the job was handed to worker 1",
	leaves:             "worker 2 leaves the job alone",
	locks:              "worker 2 locks the job",
	seesItLives:        "worker 2 sees that worker 1's session lives",
	seesItGone:         "worker 2 sees that worker 1's session is gone, and leaves the job to its lease",
	takesOver:          "worker 2 gives the job a token of its own, if it is still worker 1's, commits, and starts it",
	secondConcludes:    "worker 2 concludes the job",
	rescues:            "the job is rescued",
	breaks:             "the server ends worker 1's session 1",
	breaks2:            "the server ends worker 1's session 2",
	breaks3:            "the server ends worker 1's session 3",
	loses:              "worker 1 loses its connection",
	fades:              "the last lock of that session ends",
	freezes:            "worker 1 freezes",
	thaws:              "worker 1 thaws",
	dies:               "worker 1 dies",
	leaseEnds:          "the lease ends",
}
