package locks

// Scenario is who takes part, and what is there when it begins.
type Scenario struct {
	Name     string
	Clients  []Client
	Workers  []Worker
	Jobs     []Row // committed before it begins
	Adds     []Row
	OneLock  bool // all catalogs belong to one stripe; else every second does
	FewIDs   bool // a reservation takes one addition at most
	Crashes  int  // so many sessions of workers die in the middle of a transaction
	Requeues int  // so many requeues happen
	Releases int  // likewise releases of refreshes, which wake the catalog
}

// Client is a session that runs its calls in one transaction, and may stay idle before and after each of them, for ever,
// or roll back instead of committing.
type Client struct {
	Calls          []Call
	RepeatableRead bool
	Commits        bool // never rolls back: fewer states where it makes no difference
}

// Call is one call of a client on a catalog: 0 to 3.
type Call struct {
	Do      Doing
	Catalog catalog
}

// Doing is what a call does.
type Doing uint8

// What clients do.
const (
	Enqueue Doing = iota
	Insert        // a plain INSERT of a PENDING job
	Cancel        // of the catalog's waiting job
	Replay        // of a FAILED job
	Lock          // SELECT … FROM job_additions FOR UPDATE, by hand
)

// Worker is a session that does one thing again and again, each time in a transaction of its own.
type Worker uint8

// What workers do.
const (
	Reserve1  Worker = iota // one job at a time
	Reserve2                // up to two
	Requeue                 // refusals, failures, rescues: all go through one door
	ReleaseOf               // of a refresh: ends the back-off of what waits
)

// Row is a job or an addition that is there from the beginning.
type Row struct {
	Status    status // of a job
	Successor bool
	Marked    bool // of an addition
	From      bool
	Catalog   catalog
}

func (sc *Scenario) stripe(c catalog) int {
	if sc.OneLock {
		return 0
	}
	return int(c) % stripes
}

func (sc *Scenario) size() int { return len(sc.Clients) + len(sc.Workers) }

func (sc *Scenario) isClient(p proc) bool { return int(p) < len(sc.Clients) }

// id is the product id that call number op of client p enqueues: one bit each, the first ones for the rows that are there
// from the beginning.
func (sc *Scenario) id(p proc, op uint8) ids {
	n := sc.rowsWithIDs()
	for i := range int(p) {
		n += sc.Clients[i].enqueues(len(sc.Clients[i].Calls))
	}
	return 1 << (n + sc.Clients[p].enqueues(int(op)))
}

func (c *Client) enqueues(upTo int) (n int) {
	for _, call := range c.Calls[:upTo] {
		if call.Do == Enqueue || call.Do == Insert {
			n++
		}
	}
	return n
}

func (sc *Scenario) rowsWithIDs() (n int) {
	for _, r := range sc.Jobs {
		if !r.Successor {
			n++
		}
	}
	return n + len(sc.Adds)
}

func (sc *Scenario) replays() bool {
	for _, c := range sc.Clients {
		for _, call := range c.Calls {
			if call.Do == Replay {
				return true
			}
		}
	}
	return false
}

func (sc *Scenario) start() State {
	var s State
	for i := range s.jobs {
		s.jobs[i] = noJob
	}
	for i := range s.adds {
		s.adds[i] = noAdd
	}
	for i := range s.catalog {
		s.catalog[i].exclusive, s.creating[i].exclusive = nobody, nobody
	}
	s.faulty = nobody
	next := ids(1)
	for i, r := range sc.Jobs {
		v := version{status: r.Status, successor: r.Successor}
		if !r.Successor {
			v.ids = next
			next <<= 1
		}
		s.jobs[i] = job{was: v, is: v, cat: r.Catalog, by: nobody}
		s.committed |= v.ids
	}
	for i, r := range sc.Adds {
		s.adds[i] = addition{was: true, is: true, marked: r.Marked, from: r.From, ids: next, cat: r.Catalog, by: nobody}
		s.committed |= next
		next <<= 1
	}
	s.crashes, s.requeues, s.releases = uint8(sc.Crashes), uint8(sc.Requeues), uint8(sc.Releases)
	return s
}
