package handing_test

import (
	"os"
	"strings"
	"testing"

	"notifyworker/integration/model/explore"
	"notifyworker/integration/model/handing"
)

const bound = 1_000_000

var scenarios = []handing.Scenario{
	{Name: "nothing happens"},
	{Name: "it freezes", Freezes: true},
	{Name: "it freezes, and its session breaks", Freezes: true, Cuts: 2},
	{Name: "it dies", Dies: true},
	{Name: "its session breaks", Cuts: 2, Forged: 2},
	{Name: "it is alone", Alone: true, Cuts: 2, Forged: 1, Losses: 1},
	{Name: "it hangs up", HangsUp: true, Forged: 1},
	{Name: "answers are lost", Cuts: 1, Losses: 2, Forged: 1},
	{Name: "calls are carried out late", Late: true, Losses: 2, Cuts: 1, Forged: 1},
	{Name: "everything", Freezes: true, Dies: true, HangsUp: true, Cuts: 1, Forged: 1, Losses: 1},
	{Name: "a job that was reserved", Reserved: true, Freezes: true, Cuts: 1, Forged: 2},
}

func TestAJobThatIsHandedOverRunsOnceAndSoon(t *testing.T) {
	states := 0
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			r := explored(t, sc, handing.Protocol{})
			states += r.States
			if r.Wrong != "" {
				t.Errorf("not so: %s\n%s", r.Wrong, told(r))
			}
		})
	}
	t.Logf("%d states in all", states)
}

var lines = []struct {
	without  string
	protocol handing.Protocol
	scenario string
	wrong    string
}{
	{"who takes a job locks first and looks then", handing.Protocol{LooksFirst: true}, "nothing happens", "both run"},
	{"who takes a job asks whether it is its own", handing.Protocol{TakesAnybodys: true}, "its session breaks", "both run"},
	{"who takes a job asks whether it was taken back", handing.Protocol{TakesWhatIsBack: true, BacksWhatIsAsked: true}, "nothing happens", "worker 1 runs the job"},
	{"who takes a job asks whether it was handed to this session", handing.Protocol{TakesByAnySession: true}, "its session breaks", "both run"},
	{"who has taken a job keeps its lock until it is concluded", handing.Protocol{LetsEarly: true}, "nothing happens", "both run"},
	{"a worker asks for what it was handed and not told of", handing.Protocol{NeverAsks: true}, "it is alone", "lies until"},
	{"a worker asks again for what somebody looked after", handing.Protocol{NeverAsksAgain: true}, "its session breaks", "lies until"},
	{"who takes a job back asks whether it runs it", handing.Protocol{BacksWhatRuns: true}, "its session breaks", "that it has no more"},
	{"who takes a job back asks whether its listener asks for it", handing.Protocol{BacksWhatIsAsked: true}, "its session breaks", "that it has no more"},
	{"who takes a job back asks later for what its listener asks for", handing.Protocol{LeavesToListener: true, ForgetsWhatIsLost: true}, "answers are lost", "lies until"},
	{"who takes a job back has its lock", handing.Protocol{BackWithoutLock: true, BacksWhatIsAsked: true}, "nothing happens", "worker 1 runs the job"},
	{"who takes a job back locks first and looks then", handing.Protocol{BackLooksFirst: true}, "nothing happens", "run"},
	{"who takes a job back names the token that it saw", handing.Protocol{BackAnyToken: true}, "calls are carried out late", "that it has no more"},
	{"who takes a job back asks whether its lease has ended", handing.Protocol{BackExpired: true}, "calls are carried out late", "lies until"},
	{"a worker asks again for what was not to be had under its token", handing.Protocol{TrustsNo: true}, "calls are carried out late", "lies until"},
	{"its listener leaves alone what a take_back without an answer was about", handing.Protocol{ForgetsWhatIsLost: true}, "calls are carried out late", "that it has no more"},
	{"who hangs up waits for its session's end", handing.Protocol{HungUpAtOnce: true}, "it hangs up", "lies until"},
	{"who hangs up waits for the commits under way", handing.Protocol{HungUpNoBarrier: true}, "it hangs up", "lies until"},
	{"who takes a job over has its lock", handing.Protocol{OverWithoutLock: true}, "nothing happens", "both run"},
	{"who takes a job over looks whether the session lives", handing.Protocol{OverTheDead: true}, "its session breaks", "both run"},
	{"who takes a job over locks first and looks then", handing.Protocol{LooksBeforeLocking: true}, "its session breaks", "both run"},
	{"the token names the session", handing.Protocol{AnyKey: true}, "its session breaks", "both run"},
	{"the token tells what was handed over", handing.Protocol{AnyToken: true}, "a job that was reserved", "both run"},
	{"somebody looks after it", handing.Protocol{NobodyLooksAfter: true}, "it freezes", "lies until"},
}

func TestEveryLineIsNeeded(t *testing.T) {
	for _, l := range lines {
		t.Run(l.without, func(t *testing.T) {
			for _, sc := range scenarios {
				if sc.Name != l.scenario {
					continue
				}
				r := explored(t, sc, l.protocol)
				if r.Wrong == "" || !strings.Contains(r.Wrong, l.wrong) {
					t.Fatalf("the model says %q, want %q", r.Wrong, l.wrong)
				}
				t.Logf("without it (%s):\n%s", sc.Name, told(r))
				return
			}
			t.Fatalf("there is no scenario %q", l.scenario)
		})
	}
}

// PostgreSQL ends the locks of a session that breaks one after the other, within microseconds.
func TestWhatASessionsLocksCostThatEndOneByOne(t *testing.T) {
	r := explored(t, handing.Scenario{Cuts: 1, Forged: 1}, handing.Protocol{LocksEndOneByOne: true})
	if !strings.Contains(r.Wrong, "both run") {
		t.Fatalf("the model says %q: is docs/model.md too careful?", r.Wrong)
	}
	t.Log("\n" + told(r))
}

func TestThePageHasEveryLine(t *testing.T) {
	b, err := os.ReadFile("../../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if !strings.Contains(string(b), "| "+l.without+" |") {
			t.Errorf("docs/model.md lacks %q", l.without)
		}
	}
}

func explored(t *testing.T, sc handing.Scenario, p handing.Protocol) explore.Result {
	t.Helper()
	r, err := explore.Run(&handing.Model{Scenario: sc, Protocol: p}, bound)
	if err != nil {
		t.Fatalf("%d states: %v", r.States, err)
	}
	t.Logf("%d states, %d steps, at most %d deep", r.States, r.Steps, r.Depth)
	return r
}

func told(r explore.Result) string { return "  " + strings.Join(r.Trace, "\n  ") }
