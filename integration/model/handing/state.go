package handing

// owner is whose the job is, as its row has it.
type owner uint8

const (
	unwritten owner = iota // the client's commit has not looked yet for a worker that sleeps
	written                // it hands the job to the first worker, and is not over
	first                  // the first worker's: handed to it, taken back by it, or reserved by it
	second                 // taken over by the second one
	done
	expired // the first one's, and its lease has ended
	rescued // and no more of this model's affair; so is a job that found nobody to be handed to
)

// life is how a worker fares.
type life uint8

const (
	awake life = iota
	frozen
	dead
)

// ear is what the first worker's listener does about the job, on the session by which it does so.
type ear uint8

const (
	quiet   ear = iota
	sent        // both statements are on their way
	seen        // take_lock has found the row, and has not tried the lock
	had         // it has the lock; take_look is next
	hadNot      // it has not
	looked      // only with LooksFirst: the job is its own, and is not locked
	own         // the answer is on its way: locked, and the worker's own
	again       // likewise: the worker's own, and not locked
	none        // likewise: not the worker's own
	strange     // likewise, and yet it has the lock
)

// loop is what the first worker's loop does about the job.
type loop uint8

const (
	idle   loop = iota
	listed      // it has been told what is RUNNING for it
	waits       // for the answer of take_back
)

// back is how far the server is with take_back.
type back uint8

const (
	nothing    back = iota
	received        // it has not begun
	found           // only with BackLooksFirst: the row is what it was given, and is not locked
	lockedNot       // it did not get "taken"
	locked          // it has "taken"; or goes on without it
	committed       // it has given a token, and still has the lock
	gave            // the answer is on its way: the job, under a new token
	saysAgain       // likewise: not now
	saysNobody      // likewise: the job is not the worker's
)

// after is what the second worker does about the job.
type after uint8

const (
	away    after = iota // nothing: it has not been told, or has left it alone
	told                 // it will look after the job, once or, if somebody forges notifications, again and again
	read                 // it has seen whose job it is
	checked              // only with LooksBeforeLocking: it has seen that the first one's session lives, and has not locked the job
	hasLock              // it has "taken"
	sure                 // it has seen that the first one's session lives
	runs
)

// hung is how far the first worker is that goes into reserve.
type hung uint8

const (
	listens  hung = iota
	closed        // it has closed its connection, and waits for the session's end
	barrier       // and waits for the commits under way
	reserved      // and asks what it has been handed
)

// session of the first worker's: the number of it, 0 for none. The token of a job that was handed over names the first one.
type session = uint8

const (
	sessions = 3
	others   = session(7) // the second worker's, only with TakesAnybodys
)

// token of the job, as the row has it or as a handler of the first worker's has it.
type token = uint8

const (
	handed token = 1 // by a commit, and names session 1
	byLook token = 2 // of a job that was reserved by a look
	newest token = 6 // take_back gives those from here up to this
)

// State is everything.
type State struct {
	job    owner
	token  token
	over   uint8 // tokens whose lease has ended, as bits
	life   life
	conn   session // by which the first worker listens, as far as it knows
	alive  uint8   // sessions that the server has, as bits; each has the lock "hands" of its number
	fading session // only with LocksEndOneByOne: its "hands" is still held, and nothing else
	last   session // the highest number so far
	taken  session // that has "taken"; 0: none. Others have it in some of their states, see held
	times  uint8   // so often
	by     bool    // the server has had the job locked for the first worker
	late   session // that may still carry out a take_lock whose answer nobody waits for
	hung   hung

	note bool // a notification is on its way to the first worker
	ear  ear
	ans  token // of the job that it has taken
	let  uint8 // so many locks are to be given back

	doubt bool // there may be a job that nobody knows of
	put   bool // it is asked again later
	loop  loop
	shown token // what the loop was told, and what its take_back is given
	kept  bool  // the last take_back had no answer, and the listener leaves the job to the loop
	back  back
	given token
	lost  token // a take_back that was given this one may still be carried out, and nobody waits for its answer

	run [2]token // handlers in the first worker's process

	after  after
	cuts   uint8 // sessions that may still break
	forged uint8 // notifications that may still be forged, for either worker
	losses uint8 // answers of take_back that may still be lost
}

// held says whether someone else than a session of the first worker's holds "taken".
func (s *State) held() bool {
	return s.after == hasLock || s.after == sure || s.back == committed || s.back == locked
}

func (s *State) lives(n session) bool { return n != 0 && s.alive&(1<<n) != 0 }

func (s *State) running() bool { return s.run != [2]token{} }

func (s *State) runs(t token) bool { return t != 0 && (s.run[0] == t || s.run[1] == t) }

// firsts says whether the row is RUNNING for the first worker.
func (s *State) firsts() bool { return s.job == first || s.job == expired }

func (s *State) isOver(t token) bool { return s.over&(1<<t) != 0 }
