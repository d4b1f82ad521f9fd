package waking

// label is what is said of a step.
type label uint8

const (
	takes label = iota
	takesBusy
	stopsWishing
	losesAnswer
	isLate
	wishes
	asksBarrier
	getsBarrier
	missesBarrier
	endsBarrier
	wakes
	finds
	sleeps
	findsNothing
	dies
	goesDeaf
	listensAgain
	looksAgain
	takesFull
	slotFree
	rises
	restsInReserve
	takesSeat
	linesUp
	getsSeat
	leavesSeat
	callsAway
	losesSeat
	inserts
	beginsCommit
	rollsBack
	hasBarrier
	noBarrier
	noBarrierLooks
	triggerRuns
	snapshotFirst
	notLooking
	seesWish
	seesNoWish
	commits
	letsGo
	tells
	saysNothing
	maySleep
	says
	hasNote
	seesNobody
	leavesIt
	fails
	asksFirst
)

var said = map[label]string{
	maySleep:       "says that somebody may sleep, and is about to commit its wish",
	says:           "says that nobody sleeps",
	hasNote:        "has the lock, to say that nobody sleeps",
	seesNobody:     "sees that nobody wants to be told",
	leavesIt:       "says no more of who sleeps",
	fails:          "fails to commit that it wants to be told nothing",
	asksFirst:      "asks whether anybody may sleep",
	takes:          "commits its reservation",
	takesBusy:      "commits its reservation and is busy: it is about to take its wish back",
	stopsWishing:   "has taken its wish back",
	losesAnswer:    "takes its wish back and loses the answer: the statement is still under way",
	isLate:         "has its wish taken back by the late statement",
	wishes:         "wants to be told, and has committed that",
	asksBarrier:    "asks for the barrier",
	getsBarrier:    "gets the barrier",
	missesBarrier:  "doesn't get the barrier in time",
	endsBarrier:    "lets go of the barrier",
	wakes:          "is woken",
	finds:          "finds a job and locks its row",
	sleeps:         "finds nothing and sleeps",
	findsNothing:   "finds nothing",
	dies:           "dies; what it had not committed is undone",
	goesDeaf:       "loses its listening connection",
	listensAgain:   "listens again",
	looksAgain:     "rings its own bell, to look for what it may have missed",
	takesFull:      "commits its reservation and has no free slot any more",
	slotFree:       "has a free slot again",
	rises:          "wants no seat any more",
	restsInReserve: "finds nothing, wants a seat, and sleeps in reserve",
	takesSeat:      "takes a free seat",
	linesUp:        "waits for a seat that is taken",
	getsSeat:       "gets the seat that it waited for",
	leavesSeat:     "leaves its seat and listens no more",
	callsAway:      "leaves its seat, which nobody has waited for, and calls somebody who waits for another",
	losesSeat:      "loses the session of its seat, or of its wait for one",
	inserts:        "inserts a job",
	beginsCommit:   "begins to commit",
	rollsBack:      "rolls back",
	hasBarrier:     "has the barrier, shared",
	noBarrier:      "can't have the barrier and will notify",
	noBarrierLooks: "can't have the barrier",
	triggerRuns:    "runs the trigger",
	snapshotFirst:  "takes the snapshot of its look",
	notLooking:     "doesn't look for wishes, as its snapshot is old",
	seesWish:       "sees that somebody wants to be told, and will notify",
	seesNoWish:     "sees that nobody wants to be told",
	commits:        "commits: its job is visible",
	letsGo:         "ends its locks",
	tells:          "has its notification delivered",
	saysNothing:    "has nothing to deliver",
}
