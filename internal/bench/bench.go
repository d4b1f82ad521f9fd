package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Config is complete when Executable and Progress are set; every other zero value is a working default.
type Config struct {
	Executable  string        // notifyworker itself, which is started as worker processes
	DatabaseURL string        // a database to work on, in schemas of its own; "" starts a server that is removed at the end
	Postgres    string        // whose binaries then: see embedded.Config.Choice
	Only        []string      // names of sections; none means all
	Short       bool          // fewer and shorter rounds, and smaller amounts
	Slice       time.Duration // how long one contender is measured at a time; 0 means 3s, or 700ms in the short form, and what each long section says
	Rounds      int           // how often each one's turn comes; 0 means 5, or 2 in the short form
	Rate        int           // jobs a second of the sections soak and pinned; 0 means 500 and 1,000
	History     int           // finished jobs of the long sections; 0 means what each says, and less than that none
	Version     string        // of notifyworker, for the report
	Progress    io.Writer     // is told how far it is
	Terminal    bool          // Progress is one: a bar is drawn

	given bool // Slice was
}

// MaxSlice is the longest Slice.
const MaxSlice = 24 * time.Hour

// section is one question that a run can answer.
type section struct {
	name, title string
	steps       func(*run) int // how often it calls run.step
	measure     func(context.Context, *run, *Section) error
	long        bool   // takes so long that it runs only when it is named
	warning     string // what it does to others who use the server, "" if nothing but load
}

func sections() []section {
	return []section{
		{"latency", "From commit to start", latencySteps, measureLatency, false, ""},
		{"enqueue", "Enqueueing", enqueueSteps, measureEnqueue, false, ""},
		{"drain", "Draining", drainSteps, measureDrain, false, ""},
		{"cost", "What a job and an idle worker cost", costSteps, measureCost, false, ""},
		{"catalog", "A hot catalog", catalogSteps, measureCatalog, false, ""},
		{"addition", "Additions to a waiting job", additionSteps, measureAddition, false, ""},
		{"due", "Due times", dueSteps, measureDue, false, ""},
		{"fleet", "Many worker processes", fleetSteps, measureFleet, false, ""},
		{"soak", "A long time behind an old snapshot", soakSteps, measureSoak, true, "keeps vacuum from removing anything in the whole database for half an hour, and makes a million rows"},
		{"pinned", "Vacuum pinned and not", pinnedSteps, measurePinned, true, "keeps vacuum from removing anything in the whole database for 10 minutes"},
		{"growth", "With and without a history", growthSteps, measureGrowth, true, "makes millions of rows"},
		{"slowdisk", "A slow disk", slowDiskSteps, measureSlowDisk, true, "slows down the commits of all others"},
	}
}

// Names returns the names of the sections that run when none is named, in the order in which they run.
func Names() []string { return names(false) }

// LongNames returns those of the sections that run only when they are named.
func LongNames() []string { return names(true) }

func names(long bool) (names []string) {
	for _, s := range sections() {
		if s.long == long {
			names = append(names, s.name)
		}
	}
	return names
}

func (c Config) withDefaults() (Config, error) {
	standard := func(long, short int) int {
		if c.Short {
			return short
		}
		return long
	}
	c.given = c.Slice != 0
	if !c.given {
		c.Slice = time.Duration(standard(3000, 700)) * time.Millisecond
	}
	if c.Rounds == 0 {
		c.Rounds = standard(5, 2)
	}
	var errs []error
	if c.Slice < 50*time.Millisecond || c.Slice > MaxSlice {
		errs = append(errs, fmt.Errorf("the duration is %v: give 50ms to %v", c.Slice, MaxSlice))
	}
	if c.Rate < 0 || c.Rate > 100_000 {
		errs = append(errs, fmt.Errorf("the rate is %d: give 1 to 100000 jobs a second", c.Rate))
	}
	if c.Rounds < 1 || c.Rounds > 1000 {
		errs = append(errs, fmt.Errorf("rounds is %d: give 1 to 1000", c.Rounds))
	}
	known := append(Names(), LongNames()...)
	for _, name := range c.Only {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("there is no section %q: give some of %s", name, strings.Join(known, ",")))
		}
	}
	return c, errors.Join(errs...)
}

// Check says all that is wrong with c at once.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// run is one run of the benchmark. Sections use it one after the other.
type run struct {
	cfg      Config
	place    *place
	progress *progress
}

// Run measures and returns what it found. An error says what could not be measured, or that ctx ended first: then the report has
// the sections that were measured before, and is nil when there is none. The schemas are dropped in any case.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	fmt.Fprintln(cfg.Progress, "preparing the database")
	p, err := openPlace(ctx, cfg.DatabaseURL, cfg.Postgres)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	fmt.Fprintln(cfg.Progress, "using", p.describe)
	r := &run{cfg: cfg, place: p}
	var chosen []section
	steps := 0
	for _, s := range sections() {
		if len(cfg.Only) == 0 && !s.long || slices.Contains(cfg.Only, s.name) {
			chosen = append(chosen, s)
			steps += s.steps(r)
		}
	}
	if p.own == nil {
		warn(cfg.Progress, chosen)
	}
	r.progress = newProgress(cfg.Progress, cfg.Terminal, steps)
	defer r.progress.close()
	all := &Report{
		Version: cfg.Version, Started: began.UTC().Truncate(time.Second), Short: cfg.Short, Rounds: cfg.Rounds, SliceSeconds: cfg.Slice.Seconds(),
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}, Server: p.server,
	}
	for _, s := range chosen {
		out := Section{Name: s.name, Title: s.title}
		start := time.Now()
		if err := s.measure(ctx, r, &out); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return report, fmt.Errorf("section %s: %w", s.name, err)
		}
		out.TookSeconds = time.Since(start).Seconds()
		all.Sections = append(all.Sections, out)
		all.TookSeconds = time.Since(began).Seconds()
		report = all
	}
	return report, nil
}

// warn says what sections do to others on a server that is not ours alone.
func warn(to io.Writer, chosen []section) {
	for _, s := range chosen {
		if s.warning != "" {
			fmt.Fprintf(to, "on a server that others use: section %s %s\n", s.name, s.warning)
		}
	}
}

// step says what is being measured from now on.
func (r *run) step(format string, args ...any) { r.progress.step(fmt.Sprintf(format, args...)) }

// tiny is the run of a test: it shows that all works, and its figures mean nothing.
func (r *run) tiny() bool { return r.cfg.Slice < 200*time.Millisecond }

// amount is how much of something to take: long, or short in the short form.
func (r *run) amount(long, short int) int {
	if r.cfg.Short {
		return short
	}
	return long
}
