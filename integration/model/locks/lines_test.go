package locks_test

import (
	"strings"
	"testing"

	"notifyworker/integration/model/locks"
)

// lines are what the protocol consists of: without any of them something goes wrong, and the model finds it.
var lines = []struct {
	without  string
	protocol locks.Protocol
	scenario string
	wrong    string // in what the model says
}{
	{"enqueue takes the catalog's lock", locks.Protocol{EnqueueTakesNoLock: true}, "isolation levels mixed", "unmarked addition"},
	{"enqueue takes the catalog's lock, for the sake of requeues", locks.Protocol{EnqueueTakesNoLock: true}, "requeues meet enqueues", "open transaction"},
	{"enqueue locks in one statement and looks in the next", locks.Protocol{EnqueueLooksBeforeLocking: true}, "isolation levels mixed", "unmarked addition"},
	{"enqueue tries \"creating\"", locks.Protocol{EnqueueTakesNoCreating: true}, "three clients enqueue, one worker reserves", "open transaction"},
	{"enqueue doesn't wait for \"creating\"", locks.Protocol{EnqueueWaitsForCreating: true}, "three clients enqueue, one worker reserves", "open transaction"},
	{"enqueue looks again when it has \"creating\"", locks.Protocol{EnqueueLooksOnce: true}, "cancel", "open transaction"},
	{"enqueue has ON CONFLICT DO NOTHING", locks.Protocol{EnqueueInsertsOrFails: true}, "plain INSERTs", "23505"},
	{"an old snapshot is not trusted", locks.Protocol{SnapshotTrusted: true}, "isolation levels mixed", "unmarked addition"},
	{"an old snapshot is not trusted, for the sake of requeues", locks.Protocol{SnapshotTrusted: true}, "requeues meet an old snapshot", "23505"},

	{"a plain INSERT is guarded", locks.Protocol{RawTakesNoLock: true, RawTakesNoCreating: true}, "a plain INSERT meets a requeue", "open transaction"},
	{"the guard takes the catalog's lock", locks.Protocol{RawTakesNoLock: true}, "a plain INSERT meets a requeue", "open transaction"},
	{"the guard takes \"creating\"", locks.Protocol{RawTakesNoCreating: true}, "plain INSERTs", "open transaction"},
	{"the guard takes \"beside\" when it can't get that", locks.Protocol{RawTakesNoBeside: true}, "plain INSERTs", "open transaction"},
	{"enqueue asks for \"beside\"", locks.Protocol{EnqueueDoesNotAsk: true}, "plain INSERTs", "open transaction"},
	{"replay asks for \"beside\"", locks.Protocol{ReplayDoesNotAsk: true}, "a plain INSERT meets a replay", "open transaction"},

	{"reserve tries the catalog's lock", locks.Protocol{ReserveTakesNoLock: true}, "isolation levels mixed", "unmarked addition"},
	{"reserve doesn't wait for it", locks.Protocol{ReserveWaitsForLock: true}, "two catalogs in opposite order", "while others stand still"},
	{"a job is not taken as it is while somebody is adding", locks.Protocol{TakenAsItIsUnlocked: true}, "isolation levels mixed", "unmarked addition"},
	{"a job that somebody has joined is not taken as it is", locks.Protocol{JoinedTakenAsItIs: true}, "isolation levels mixed", "no look finds it"},
	{"whether somebody has joined is looked at under the lock", locks.Protocol{AloneBeforeLocking: true}, "isolation levels mixed", "unmarked addition"},
	{"reserve leaves a successor when somebody is adding", locks.Protocol{NoSuccessor: true}, "isolation levels mixed", "unmarked addition"},
	{"reserve leaves a successor for what it passed over", locks.Protocol{NoSuccessorForPassed: true}, "rows locked by hand", "unmarked addition"},
	{"it does so for what another worker has", locks.Protocol{NoSuccessorForPassed: true}, "a worker dies", "unmarked addition"},
	{"it does so, or a release leaves unmarked additions alone", locks.Protocol{NoSuccessorForPassed: true, ReleaseLocksUnmarked: true}, "a refresh is released", "unmarked addition"},
	{"a successor stays while somebody is adding", locks.Protocol{SuccessorGoesUnasked: true}, "isolation levels mixed", "unmarked addition"},
	{"a successor's INSERT takes no lock", locks.Protocol{SuccessorTakesLock: true}, "batches over stripes crosswise", "deadlock"},
	{"a successor that gets nothing is put off", locks.Protocol{EmptySuccessorRuns: true}, "rows locked by hand", "no ids"},
	{"fold passes over locked additions", locks.Protocol{FoldWaits: true}, "rows locked by hand", "while others stand still"},
	{"fold passes over additions that another worker has", locks.Protocol{FoldWaits: true}, "a worker dies", "deadlock"},
	{"fold takes marked additions", locks.Protocol{FoldLeavesMarked: true}, "isolation levels mixed", "no look finds it"},
	{"marked additions without a job become one", locks.Protocol{MarkedWaitForJob: true}, "three clients enqueue, one worker reserves", "no look finds it"},

	{"requeue tries the catalog's lock", locks.Protocol{RequeueTakesNoLock: true}, "requeues meet enqueues", "open transaction"},
	{"requeue doesn't wait for it", locks.Protocol{RequeueWaitsForLock: true}, "requeues meet enqueues", "open transaction"},
	{"requeue locks first and looks then", locks.Protocol{RequeueLooksBeforeLocking: true}, "requeues meet enqueues", "23505"},
	{"requeue looks", locks.Protocol{RequeueDoesNotLook: true}, "two requeues at once", "23505"},

	{"cancel leaves a successor", locks.Protocol{CancelLeavesNoSuccessor: true}, "cancel", "unmarked addition"},
	{"cancel doesn't take the catalog's lock", locks.Protocol{CancelTakesLock: true}, "cancel", "open transaction"},
	{"replay doesn't take the catalog's lock exclusively", locks.Protocol{ReplayTakesLock: true}, "replays by clients, then an enqueue each", "open transaction"},
	{"replay takes \"creating\"", locks.Protocol{ReplayTakesNoCreating: true}, "replay meets a requeue", "open transaction"},
	{"replay is merged when a plain INSERT came first", locks.Protocol{ReplayUpdatesOrFails: true}, "a plain INSERT meets a replay", "23505"},

	{"PostgreSQL releases locks after the commit is visible", locks.Protocol{LocksEndBeforeCommit: true}, "isolation levels mixed", "unmarked addition"},
}

func TestEveryLineIsNeeded(t *testing.T) {
	for _, l := range lines {
		t.Run(l.without, func(t *testing.T) {
			r := explored(t, scenario(t, l.scenario), l.protocol)
			if !strings.Contains(r.Wrong, l.wrong) || r.Wrong == "" {
				t.Fatalf("the model says %q, want %q", r.Wrong, l.wrong)
			}
			t.Logf("without it (%s):\n%s", l.scenario, told(r))
		})
	}
}

// Nothing goes wrong without these. The reasons why they are as they are stand beside them.
func TestLinesThatSafetyDoesNotNeed(t *testing.T) {
	for _, l := range []struct {
		because  string
		protocol locks.Protocol
		in       []string
	}{
		// So the protocol doesn't take it: reservations need leave no successor for such a client.
		{"a marked addition depends on no lock", locks.Protocol{MarkingTakesLock: true}, []string{"isolation levels mixed", "requeues meet an old snapshot", "few ids a job"}},
		// The check saves a job: the waiting one will take the ids along.
		{"marked additions may run beside a waiting job", locks.Protocol{MarkedRunBesideWaiting: true}, []string{"isolation levels mixed", "a worker dies", "few ids a job"}},
		// Either is enough; the successor also covers what people lock. See "it does so, or …" above.
		{"a release may lock unmarked additions, since who passes over them leaves a successor", locks.Protocol{ReleaseLocksUnmarked: true}, []string{"a refresh is released"}},
	} {
		t.Run(l.because, func(t *testing.T) {
			for _, name := range l.in {
				if r := explored(t, scenario(t, name), l.protocol); r.Wrong != "" {
					t.Errorf("%s:\n%s", name, told(r))
				}
			}
		})
	}
}

// What is forgiven to plain SQL is reached, and is what docs/protocol.md says it is.
func TestWhatAPlainInsertCosts(t *testing.T) {
	for _, name := range []string{"plain INSERTs", "two catalogs of one stripe"} {
		t.Run(name, func(t *testing.T) {
			r := explored(t, scenario(t, name), locks.Protocol{Strict: true})
			if !strings.Contains(r.Wrong, "open transaction") {
				t.Fatalf("the model says %q: what is forgiven in vain?", r.Wrong)
			}
			t.Log("\n" + told(r))
		})
	}
}
