package locks

const (
	maxProcs = 6
	maxJobs  = 7
	maxAdds  = 6
	maxCats  = 4
	stripes  = 2
)

// ids is a set of product ids, a bit each. proc is a process, by its place in the scenario.
type (
	ids     uint8
	set     uint8 // of processes, jobs or additions, by place
	catalog uint8
	proc    uint8
)

const nobody proc = 255

type status uint8

const (
	absent status = iota
	pending
	running
	failed
)

// version is what a transaction may see of a job.
type version struct {
	status    status
	ids       ids
	successor bool
}

// job is a row of jobs. Only one transaction at a time can have changed it, so two versions are enough.
type job struct {
	was   version // as committed; absent: not inserted yet
	is    version // as by has left it; equal to was when by is nobody
	cat   catalog
	by    proc // who holds the row's lock, or has written it
	wrote bool // by has written a version, and has not only locked the row
}

// addition is a row of job_additions.
type addition struct {
	was, is bool // there, as committed and as by has left it
	marked  bool
	from    bool // of a requeue
	ids     ids
	cat     catalog
	by      proc
}

// process is a session and what its program remembers.
type process struct {
	at      place
	op      uint8   // a client's: which call of its script is next
	cat     catalog // what it works on
	job     uint8   // place of the row that it works on plus one; 0: none
	todo    set     // jobs that its look has found and that it has not come to
	found   set     // additions that its look has found
	saw     set     // catalogs of which its snapshot shows a waiting job
	got     uint8   // jobs reserved in this transaction
	quiet   bool    // the catalog's lock was got exclusively
	more    bool    // a reservation has had its fill, and ids are left
	marks   bool    // its addition is to be marked
	creates bool    // it has "creating", and nobody was beside it
	snap    bool    // its snapshot was taken
	writes  ids     // enqueued in this transaction
	passed  bool    // a plain INSERT of its catalog went on beside it after it had asked; see Model.forgives
	was     place   // a client that is committing: where its locks are still held
}

// State is everything: the tables, the locks, and where each session stands.
type State struct {
	jobs      [maxJobs]job
	adds      [maxAdds]addition
	procs     [maxProcs]process
	catalog   [stripes]lock
	creating  [stripes]lock
	beside    [stripes]set // who has this lock, shared; it is never kept exclusively
	committed ids          // by enqueues, or there from the beginning
	done      ids          // in a job that has ended, or runs and will not be requeued any more
	crashes   uint8
	requeues  uint8 // how many may still happen
	releases  uint8
	fault     fault
	faulty    proc
}

type fault uint8

const (
	noFault fault = iota
	duplicate
	tooBig
)

func (s *State) freeJob() int {
	for i := range s.jobs {
		if s.jobs[i] == noJob {
			return i
		}
	}
	return -1
}

var (
	noJob = job{by: nobody}
	noAdd = addition{by: nobody}
)

// insertJob returns the place of the new row.
func (s *State) insertJob(p proc, c catalog, v version) int {
	i := s.freeJob()
	if i < 0 {
		s.fault, s.faulty = tooBig, p
		return 0
	}
	s.jobs[i] = job{is: v, cat: c, by: p, wrote: true}
	return i
}

func (s *State) insertAdd(p proc, a addition) {
	for i := range s.adds {
		if s.adds[i] == noAdd {
			a.is, a.by = true, p
			s.adds[i] = a
			return
		}
	}
	s.fault, s.faulty = tooBig, p
}

// dropJob takes a row away, also from those who have seen it: its place may be given to another row.
func (s *State) dropJob(i int) {
	s.jobs[i] = noJob
	for p := range s.procs {
		s.procs[p].todo &^= 1 << i
	}
}

func (s *State) dropAdd(i int) {
	s.adds[i] = noAdd
	for p := range s.procs {
		s.procs[p].found &^= 1 << i
	}
}
