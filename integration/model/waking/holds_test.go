package waking_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"notifyworker/integration/model/explore"
	"notifyworker/integration/model/waking"
)

var large = flag.Bool("model.large", false, "explore the large scenarios, too")

const bound = 20_000_000

var (
	plain     = waking.Plain
	repeat    = waking.RepeatableRead
	immediate = waking.Immediate
)

var small = []waking.Scenario{
	{Name: "plain clients", Workers: 2, Clients: []waking.Client{plain, plain}},
	{Name: "isolation levels mixed", Workers: 2, Clients: []waking.Client{plain, repeat}},
	{Name: "triggers run early", Workers: 2, Clients: []waking.Client{immediate, plain}},
	{Name: "triggers always run early", Workers: 2, Clients: []waking.Client{immediate, immediate}},
	{Name: "a worker dies", Workers: 2, Clients: []waking.Client{plain, plain}, Deaths: 1},
	{Name: "the listening connection breaks", Workers: 1, Clients: []waking.Client{plain, plain}, Cuts: 2},
	{Name: "a wish is taken back in vain", Workers: 2, Clients: []waking.Client{plain}, Fails: 1},
	{Name: "three clients", Workers: 1, Clients: []waking.Client{plain, repeat, immediate}},
	{Name: "one seat", Workers: 2, Seats: 1, Clients: []waking.Client{plain}},
	{Name: "one seat, and a worker dies", Workers: 2, Seats: 1, Clients: []waking.Client{plain}, Deaths: 1},
	{Name: "one seat, and connections break", Workers: 2, Seats: 1, Clients: []waking.Client{plain}, Cuts: 1},
	{Name: "a seat for each", Workers: 2, Seats: 2, Clients: []waking.Client{plain}},
	{Name: "two seats, and one has frozen on one", Workers: 2, Seats: 2, Clients: []waking.Client{plain}, Frozen: true},
}

var bigger = []waking.Scenario{
	{Name: "three workers", Workers: 3, Clients: []waking.Client{plain, immediate}, Deaths: 1},
	{Name: "two workers, three clients", Workers: 2, Clients: []waking.Client{plain, immediate, repeat}},
	{Name: "both listening connections break", Workers: 2, Clients: []waking.Client{plain, immediate}, Cuts: 2},
	{Name: "one seat, two clients", Workers: 2, Seats: 1, Clients: []waking.Client{plain, plain}},
	{Name: "three workers, one seat", Workers: 3, Seats: 1, Clients: []waking.Client{plain}},
	{Name: "one seat, a death, a cut", Workers: 2, Seats: 1, Clients: []waking.Client{plain, immediate}, Deaths: 1, Cuts: 1},
}

func TestNoWakeUpIsLost(t *testing.T) {
	scenarios := small
	if *large {
		scenarios = append(scenarios, bigger...)
	}
	states := 0
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			r := explored(t, sc, waking.Protocol{})
			states += r.States
			if r.Wrong != "" {
				t.Errorf("not so:\n%s", told(r))
			}
		})
	}
	t.Logf("%d states in all", states)
}

var lines = []struct {
	without  string
	protocol waking.Protocol
	scenario string
	wrong    string
}{
	{"commits take the barrier", waking.Protocol{CommitsTakeNoBarrier: true}, "plain clients", "no bell"},
	{"commits don't wait for the barrier", waking.Protocol{CommitsWait: true}, "plain clients", "waits for a worker"},
	{"commits take the barrier in one statement and look in the next", waking.Protocol{CommitsLookFirst: true}, "plain clients", "no bell"},
	{"who can't get the barrier notifies", waking.Protocol{MissedBarrierLooks: true}, "plain clients", "no bell"},
	{"an old snapshot is not trusted", waking.Protocol{OldSnapshotLooks: true}, "isolation levels mixed", "no bell"},
	{"the worker takes the barrier", waking.Protocol{WorkerTakesNoBarrier: true}, "plain clients", "no bell"},
	{"the wish is committed before the barrier is taken", waking.Protocol{BarrierBeforeWish: true}, "plain clients", "no bell"},
	{"the worker looks once more after the barrier", waking.Protocol{NoLookAfterBarrier: true}, "plain clients", "no bell"},
	{"who is kept from the barrier goes on looking", waking.Protocol{MissedBarrierTrusted: true}, "triggers run early", "no bell"},
	{"who can't have a due job's row goes on looking", waking.Protocol{SleepsThoughLocked: true}, "a worker dies", "no bell"},
	{"who takes its wish back begins anew", waking.Protocol{StaysArmed: true}, "plain clients", "no bell"},
	{"who wishes says that somebody may sleep", waking.Protocol{WishSetsNothing: true}, "plain clients", "no bell"},
	{"under the lock, to the commit of the wish", waking.Protocol{WishTakesNoLock: true}, "a worker dies", "no bell"},
	{"who says that nobody sleeps has the lock alone", waking.Protocol{SaysWithoutLock: true}, "a worker dies", "no bell"},
	{"who has that lock looks", waking.Protocol{SaysWithoutLook: true}, "a worker dies", "no bell"},
	{"who takes its wish back commits that, and then says that nobody sleeps", waking.Protocol{SaysBeforeCommit: true}, "a worker dies", "no bell"},
	{"a commit asks whether anybody sleeps when it has the barrier", waking.Protocol{AsksBeforeBarrier: true}, "plain clients", "no bell"},
	{"who is connected again looks", waking.Protocol{ReconnectLooksNotOnce: true}, "the listening connection breaks", "no bell"},
	{"it listens first and looks then", waking.Protocol{LooksBeforeListening: true}, "the listening connection breaks", "no bell"},
	{"who is full leaves its seat", waking.Protocol{FullStaysSeated: true}, "one seat", "no bell"},
	{"who has left its seat looks when a slot is free", waking.Protocol{RisesAndForgets: true}, "one seat", "no bell"},
	{"who falls asleep asks for a seat again", waking.Protocol{SleepsStanding: true}, "a seat for each", "no bell"},
	{"who gets a seat looks", waking.Protocol{SeatLooksNotOnce: true}, "one seat", "no bell"},
	{"it listens first on its seat and looks then", waking.Protocol{SeatLooksFirst: true}, "one seat", "no bell"},
	{"who leaves its seat calls somebody to it", waking.Protocol{NobodyCalled: true}, "two seats, and one has frozen on one", "no bell"},
	{"a seat is free when its session ends", waking.Protocol{SeatOutlives: true}, "one seat, and a worker dies", "no bell"},
	{"PostgreSQL releases locks after the commit is visible", waking.Protocol{LocksEndBeforeCommit: true}, "plain clients", "no bell"},
}

func TestEveryLineIsNeeded(t *testing.T) {
	for _, l := range lines {
		t.Run(l.without, func(t *testing.T) {
			for _, sc := range small {
				if sc.Name != l.scenario {
					continue
				}
				r := explored(t, sc, l.protocol)
				if !strings.Contains(r.Wrong, l.wrong) || r.Wrong == "" {
					t.Fatalf("the model says %q, want %q", r.Wrong, l.wrong)
				}
				t.Logf("without it (%s):\n%s", sc.Name, told(r))
				return
			}
			t.Fatalf("there is no scenario %q", l.scenario)
		})
	}
}

// That the triggers are deferred keeps the barrier free while clients' transactions are open: workers could not sleep else,
// but no wake-up would be lost.
func TestDeferringIsForSleepNotForSafety(t *testing.T) {
	for _, sc := range small[:4] {
		if r := explored(t, sc, waking.Protocol{TriggersRunAtOnce: true}); r.Wrong != "" {
			t.Errorf("%s:\n%s", sc.Name, told(r))
		}
	}
}

// A statement that takes the wish back, whose answer is lost and which the server carries out only after the worker has
// asked to be told again, takes back the newer wish. The slow poll is the net.
func TestWhatALostAnswerCosts(t *testing.T) {
	r := explored(t, waking.Scenario{Workers: 1, Clients: []waking.Client{plain}, Lost: true}, waking.Protocol{})
	if !strings.Contains(r.Wrong, "no bell") {
		t.Fatalf("the model says %q: is docs/model.md too careful?", r.Wrong)
	}
	t.Log("\n" + told(r))
}

func explored(t *testing.T, sc waking.Scenario, p waking.Protocol) explore.Result {
	t.Helper()
	began := time.Now()
	r, err := explore.Run(&waking.Model{Scenario: sc, Protocol: p}, bound)
	if err != nil {
		t.Fatalf("%d states: %v", r.States, err)
	}
	t.Logf("%d states, %d steps, at most %d deep, %v", r.States, r.Steps, r.Depth, time.Since(began).Round(time.Millisecond))
	return r
}

func told(r explore.Result) string { return "  " + strings.Join(r.Trace, "\n  ") }
