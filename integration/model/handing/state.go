package handing

// owner is whose the job is, as its row has it.
type owner uint8

const (
	first  owner = iota // it was handed to the first worker, or reserved by it
	second              // taken over by the second one
	done
	expired // its lease has ended: rescued, and no more of this model's affair
)

// life is how a worker fares.
type life uint8

const (
	awake life = iota
	frozen
	dead
)

// doing is what the first worker does about the job.
type doing uint8

const (
	knowing  doing = iota // it has been told of the job, or will ask
	deaf                  // nobody has told it
	looked                // only with LooksFirst: it has seen that the job is its own, and has not locked it
	answered              // the server has locked the job for it, and seen that it is its own; it does not know yet
	starting              // it knows
	running
	over // it has concluded it, or knows that it is not its own
)

// after is what the second one does about it.
type after uint8

const (
	told    after = iota // it will look after the job, once or, if somebody forges notifications, again and again
	read                 // it has seen whose job it is
	checked              // only with LooksBeforeLocking: it has seen that the first one's session lives, and has not locked the job
	locked               // it has "taken"
	sure                 // it has seen that the first one's session lives
	runs
	idle
)

// session of the first worker's hands: the number of it, 0 for none. The token of the job names the first one.
type session = uint8

const sessions = 3

// State is everything.
type State struct {
	job    owner
	life   life
	doing  doing
	after  after
	hands  session // that lives, and has the lock "hands" of its number
	fading session // only with LocksEndOneByOne: its "hands" is still held, and nothing else
	last   session // the highest number so far
	taken  session // that has "taken"; 0: none. The second worker has it from locked to sure
	by     session // that the first worker has taken the job by
	cuts   uint8   // sessions that may still break
	forged uint8   // notifications that may still be forged
	looks  bool    // the job was reserved by a look, and its token tells so
}

// held says whether the second one holds "taken".
func (s *State) held() bool { return s.after == locked || s.after == sure }
