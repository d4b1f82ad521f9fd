package locks

// Shorthand for the tables below.
var (
	enqueueA = Call{Enqueue, 0}
	enqueueB = Call{Enqueue, 1}
	insertA  = Call{Insert, 0}
	cancelA  = Call{Cancel, 0}
	replayA  = Call{Replay, 0}
	replayB  = Call{Replay, 1}
	lockA    = Call{Lock, 0}
)

func calls(c ...Call) Client          { return Client{Calls: c} }
func repeatableRead(c ...Call) Client { return Client{Calls: c, RepeatableRead: true} }

// Small are the scenarios for every build: about a million states in all.
var Small = []Scenario{
	{
		Name:    "three clients enqueue, one worker reserves",
		Clients: []Client{calls(enqueueA), calls(enqueueA), calls(enqueueA)},
		Workers: []Worker{Reserve1},
	},
	{
		Name:    "isolation levels mixed",
		Clients: []Client{calls(enqueueA), repeatableRead(enqueueA)},
		Workers: []Worker{Reserve1, Reserve1},
		Jobs:    []Row{{Status: pending}},
	},
	{
		Name:     "requeues meet enqueues",
		Clients:  []Client{calls(enqueueA), calls(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue},
		Jobs:     []Row{{Status: running}},
		Requeues: 2,
	},
	{
		Name:     "two requeues at once",
		Clients:  []Client{calls(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue, Requeue},
		Jobs:     []Row{{Status: running}, {Status: running}},
		Requeues: 2,
	},
	{
		Name:     "requeues meet an old snapshot",
		Clients:  []Client{calls(enqueueA), repeatableRead(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue},
		Jobs:     []Row{{Status: running}},
		Requeues: 1,
	},
	{
		Name:    "plain INSERTs",
		Clients: []Client{calls(insertA), calls(insertA), calls(enqueueA)},
		Workers: []Worker{Reserve1},
	},
	{
		Name:     "a plain INSERT meets a requeue",
		Clients:  []Client{calls(insertA), calls(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue},
		Jobs:     []Row{{Status: running}},
		Requeues: 1,
	},
	{
		Name:    "a plain INSERT meets a replay",
		Clients: []Client{calls(insertA), calls(replayA), calls(enqueueB)},
		Workers: []Worker{Reserve1},
		Jobs:    []Row{{Status: failed}},
		OneLock: true,
	},
	{
		Name:    "two catalogs in opposite order",
		Clients: []Client{calls(enqueueA, enqueueB), calls(enqueueB, enqueueA)},
		Workers: []Worker{Reserve2},
		Jobs:    []Row{{Status: pending}, {Status: pending, Catalog: 1}},
	},
	{
		Name:    "two catalogs of one stripe",
		Clients: []Client{calls(enqueueA), calls(enqueueB), calls(insertA)},
		Workers: []Worker{Reserve2},
		OneLock: true,
	},
	{
		Name:    "batches of two workers",
		Clients: []Client{calls(enqueueA, enqueueB)},
		Workers: []Worker{Reserve2, Reserve2},
		Jobs:    []Row{{Status: pending}, {Status: pending, Catalog: 1}},
	},
	{
		Name:    "batches over stripes crosswise",
		Workers: []Worker{Reserve2, Reserve2},
		Jobs:    []Row{{Status: pending}, {Status: pending, Catalog: 1}, {Status: pending, Catalog: 2}, {Status: pending, Catalog: 3}},
	},
	{
		Name:    "a worker dies",
		Clients: []Client{calls(enqueueA), calls(enqueueA)},
		Workers: []Worker{Reserve1, Reserve1},
		Adds:    []Row{{Marked: true}},
		Crashes: 1,
	},
	{
		Name:    "few ids a job",
		Clients: []Client{calls(enqueueA), repeatableRead(enqueueA)},
		Workers: []Worker{Reserve1, Reserve1},
		Jobs:    []Row{{Status: pending}},
		Adds:    []Row{{}, {}},
		FewIDs:  true,
	},
	{
		Name:    "cancel",
		Clients: []Client{calls(cancelA), calls(enqueueA), calls(enqueueA)},
		Workers: []Worker{Reserve1},
		Jobs:    []Row{{Status: pending}},
	},
	{
		Name:     "cancel meets a requeue",
		Clients:  []Client{calls(enqueueA, cancelA), calls(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue},
		Jobs:     []Row{{Status: running}},
		Requeues: 1,
	},
	{
		Name:    "replays by clients, then an enqueue each",
		Clients: []Client{calls(replayA, enqueueB), calls(replayB, enqueueA)},
		Workers: []Worker{Reserve1},
		Jobs:    []Row{{Status: failed}, {Status: failed, Catalog: 1}},
	},
	{
		Name:     "replay meets a requeue",
		Clients:  []Client{calls(replayA), repeatableRead(replayA), calls(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue},
		Jobs:     []Row{{Status: failed}, {Status: running}},
		Requeues: 1,
	},
	{
		Name:    "rows locked by hand",
		Clients: []Client{calls(lockA), calls(enqueueA)},
		Workers: []Worker{Reserve1, Reserve1},
		Jobs:    []Row{{Status: pending}},
		Adds:    []Row{{}},
	},
	{
		Name:     "a refresh is released",
		Clients:  []Client{calls(enqueueA)},
		Workers:  []Worker{Reserve1, ReleaseOf, Requeue},
		Jobs:     []Row{{Status: running}, {Status: pending, Successor: true}},
		Adds:     []Row{{From: true}},
		Releases: 1,
		Requeues: 1,
	},
}

// Large have more who take part: some ten million states.
var Large = []Scenario{
	{
		Name:     "clients of both kinds, two workers and a requeue",
		Clients:  []Client{calls(enqueueA), calls(enqueueA), repeatableRead(enqueueA)},
		Workers:  []Worker{Reserve1, Reserve1, Requeue},
		Jobs:     []Row{{Status: running}},
		Requeues: 1,
	},
	{
		Name:    "all calls of clients",
		Clients: []Client{calls(enqueueA), calls(insertA), calls(cancelA), calls(replayA)},
		Workers: []Worker{Reserve1},
		Jobs:    []Row{{Status: failed}},
	},
	{
		Name:    "two catalogs in opposite order, two workers, one dies",
		Clients: []Client{calls(enqueueA, enqueueB), calls(enqueueB, enqueueA)},
		Workers: []Worker{Reserve2, Reserve2},
		Crashes: 1,
	},
	{
		Name:     "requeues, crashes and a release",
		Clients:  []Client{calls(enqueueA), calls(enqueueA)},
		Workers:  []Worker{Reserve1, Requeue, ReleaseOf},
		Jobs:     []Row{{Status: running}, {Status: pending, Successor: true}},
		Adds:     []Row{{From: true}},
		Crashes:  1,
		Requeues: 2,
		Releases: 1,
	},
}
