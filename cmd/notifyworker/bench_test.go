package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/bench"
	"notifyworker/internal/pgtest"
)

func TestBenchMeasuresAllAndLeavesNothing(t *testing.T) {
	db := pgtest.Empty(t)
	page := filepath.Join(t.TempDir(), "report.html")
	b := start(t, nil, "bench", "--database-url="+db.URL, "--short", "--rounds=1", "--duration=100ms", "--json", "--html="+page)
	if code := b.code(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	report := reported(t, b, bench.Names())
	if report.Server.Own || report.Server.Version == "" || report.Rounds != 1 || report.SliceSeconds != 0.1 {
		t.Errorf("the head is %+v", report)
	}
	for _, row := range report.Sections[0].Tables[0].Rows[:5] { // who is woken has started a job or two in any time
		if !(row.Values[0] >= 0) || row.Values[4] < 1 {
			t.Errorf("idle latency of %s: %v", row.Name, row.Values)
		}
	}
	// Statements are counted on any server. In so short a time under load there may be no job to share them; a drain has its jobs.
	if drain := report.Sections[2].Tables[0]; drain.Columns[1].Name != "statements a job" || !(drain.Rows[0].Values[1] > 0.01) {
		t.Errorf("statements while draining: %+v", drain)
	}
	if idle := report.Sections[3].Tables[0]; idle.Columns[0].Name != "statements/s" || !(idle.Rows[0].Values[0] >= 0) {
		t.Errorf("statements while idle: %+v", idle)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "</html>") {
		t.Errorf("the page: %v", err)
	}
	wantNoBench(t, db, b)
}

// reported is the report that is printed as JSON, with these sections, each of them complete.
func reported(t *testing.T, b *command, want []string) (report bench.Report) {
	t.Helper()
	text := b.out.String()
	begin := strings.Index(text, "{\n")
	if begin < 0 {
		t.Fatal("no JSON is printed")
	}
	d := json.NewDecoder(strings.NewReader(text[begin:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&report); err != nil {
		t.Fatalf("the JSON is not a report's: %v", err)
	}
	var names []string
	for _, s := range report.Sections {
		names = append(names, s.Name)
		if s.About == "" || len(s.Tables) == 0 || len(s.Targets) == 0 {
			t.Errorf("section %s lacks something: %+v", s.Name, s)
		}
		for _, n := range s.Notes {
			t.Logf("%s: %s", s.Name, n)
		}
		for _, table := range s.Tables {
			if len(table.Rows) == 0 {
				t.Errorf("%s, %s is empty", s.Name, table.Title)
			}
			for _, row := range table.Rows {
				if len(row.Values) != len(table.Columns) {
					t.Errorf("%s, %s, %s has %d values for %d columns", s.Name, table.Title, row.Name, len(row.Values), len(table.Columns))
				}
			}
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("sections %v, want %v", names, want)
	}
	return report
}

func TestTheLongSectionsOfTheBenchInSeconds(t *testing.T) {
	db := pgtest.Empty(t)
	page := filepath.Join(t.TempDir(), "report.html")
	b := start(t, nil, "bench", "--database-url="+db.URL, "--only=soak,pinned", "--duration=2s", "--rate=50", "--history=1000", "--json", "--html="+page)
	if code := b.code(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	report := reported(t, b, []string{"soak", "pinned"})
	for _, s := range report.Sections {
		started, reservations := false, false // a starved machine may do nothing in some samples
		for _, row := range s.Tables[2].Rows {
			started, reservations = started || row.Values[0] > 0, reservations || row.Values[3] > 0
			if !(row.Values[10] > 0) {
				t.Errorf("%s, %s: %v open descriptors", s.Name, row.Name, row.Values[10])
			}
		}
		if !started || !reservations {
			t.Errorf("%s: no job has started, or no reservation was timed: %+v", s.Name, s.Tables[2])
		}
		sizes := map[string]bool{}
		for _, row := range s.Tables[1].Rows {
			sizes[row.Name] = true
		}
		if !sizes["jobs"] || !sizes["jobs_due_idx"] || !sizes["jobs_lease_idx"] {
			t.Errorf("%s tells the sizes of %v", s.Name, sizes)
		}
	}
	if text, err := os.ReadFile(page); err != nil || strings.Count(string(text), "<svg") != 4 {
		t.Errorf("the page: %v", err)
	}
	wantNoBench(t, db, b)
}

func TestGrowthAndASlowDiskInSeconds(t *testing.T) {
	db := pgtest.Empty(t)
	b := start(t, nil, "bench", "--database-url="+db.URL, "--only=growth,slowdisk", "--short", "--duration=100ms", "--rounds=1", "--history=2000", "--json")
	if code := b.code(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	report := reported(t, b, []string{"growth", "slowdisk"})
	// In so short a time under load there may be no commit and no start; what waits is drained, and what is asked is answered.
	growth := report.Sections[0].Tables
	for _, row := range append(growth[0].Rows[:1], growth[1].Rows...) {
		if !(row.Values[0] > 0) || !(row.Values[1] > 0) {
			t.Errorf("growth, %s: %v", row.Name, row.Values)
		}
	}
	if disk := report.Sections[1].Tables[0]; len(disk.Rows) != 5 {
		t.Errorf("a slow disk: %+v", disk)
	}
	wantNoBench(t, db, b)
}

func TestAStoppedSoakLeavesNothing(t *testing.T) {
	wantStopLeavesNothing(t, "vacuum pinned", "soak", "--only=soak", "--rate=50", "--history=1000")
}

func TestAStoppedBenchLeavesNothing(t *testing.T) {
	wantStopLeavesNothing(t, "idle latency", "latency", "--only=drain,latency", "--rounds=1", "--duration=30s")
}

func TestAStoppedBenchShowsWhatItHasMeasured(t *testing.T) {
	b := wantStopLeavesNothing(t, "additions, round 1", "addition", "--only=drain,addition", "--rounds=2", "--duration=50ms", "--short")
	wantAll(t, b.out.String(), "what follows was measured before the error", "DRAINING (drain)", "TARGETS")
}

func TestBenchAsksFirstWhetherItsPageCanBeWritten(t *testing.T) {
	b := start(t, nil, "bench", "--only=drain", "--html="+filepath.Join(t.TempDir(), "none", "page.html"))
	if code := b.code(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	wantAll(t, b.out.String(), "write the report", "page.html")
	if strings.Contains(b.out.String(), "preparing") {
		t.Error("it measured before it found out")
	}
}

// wantStopLeavesNothing interrupts a benchmark once it says something, which it does in a section.
func wantStopLeavesNothing(t *testing.T, says, section string, args ...string) *command {
	t.Helper()
	db := pgtest.Empty(t)
	b := start(t, nil, append([]string{"bench", "--database-url=" + db.URL}, args...)...)
	for !strings.Contains(b.out.String(), says) {
		select {
		case <-b.done:
			t.Fatal("the benchmark ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.signal(syscall.SIGINT)
	if code := b.code(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	wantAll(t, b.out.String(), "interrupt: cleaning up", "ended before all was measured: section "+section+": stopped by interrupt")
	wantNoBench(t, db, b)
	return b
}

func TestBenchOnItsOwnServerShowsTables(t *testing.T) {
	env := demoEnvironment(t)
	b := start(t, env, "bench", "--short", "--rounds=1", "--duration=50ms", "--only=drain")
	if code := b.code(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	wantAll(t, b.out.String(), "DRAINING (drain)", "jobs/s", "TARGETS", "durable")
	wantNothingLeft(t, b)
}

func TestBenchSaysWhatCanBeMeasured(t *testing.T) {
	b := start(t, nil, "bench", "--only=speed", "--rounds=0")
	if code := b.code(); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantAll(t, b.out.String(), `no section "speed"`, "latency,enqueue", "rounds")
	b = start(t, nil, "bench", "--database-url=postgres://h1/a postgres://h2/b", "--rate=none")
	if code := b.code(); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantAll(t, b.out.String(), "2 databases are named, h1:5432/a and h2:5432/b", "say which by --database-url", "rate")
	b = start(t, nil, "bench", "--help")
	b.code()
	help := strings.Join(strings.Fields(b.out.String()), " ")
	for _, want := range []string{"(default all: " + strings.Join(bench.Names(), ", ") + ")", "Only when named, since they take long: " + strings.Join(bench.LongNames(), ", ") + " ("} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not say %q:\n%s", want, help)
		}
	}
}

// wantNoBench looks for schemas and processes.
func wantNoBench(t *testing.T, db *pgtest.Database, b *command) {
	t.Helper()
	until(t, db.Conn(t), "no schema is left", "SELECT count(*) = 0 FROM pg_namespace WHERE nspname LIKE 'notifyworker%'")
	until(t, db.Conn(t), "no connection is left", "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'notifyworker%'")
}
