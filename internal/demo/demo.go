package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"notifyworker/internal/queue"
)

// Config is complete when Executable and Out are set; every other zero value is a working default.
type Config struct {
	Executable  string        // notifyworker itself, which is started as worker processes
	DatabaseURL string        // a server to make a database on; "" starts one that is removed at the end
	Postgres    string        // whose binaries then: see embedded.Config.Choice
	Duration    time.Duration // of publishing; 0 means 20s
	Rate        float64       // updates a second for each set; 0 means 20
	Out         io.Writer
	Terminal    bool // Out is one: the table is drawn over and over
}

// maxDuration keeps the whole within a minute.
const maxDuration = 40 * time.Second

// Run shows notifyworker at work and returns nil when the verdict is good. It ends by itself; ctx ends it earlier.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Duration == 0 {
		cfg.Duration = 20 * time.Second
	}
	if cfg.Rate == 0 {
		cfg.Rate = 20
	}
	if cfg.Duration < time.Second || cfg.Duration > maxDuration || cfg.Rate < 1 || cfg.Rate > 1000 {
		return fmt.Errorf("duration is %v and rate %v: give 1s to %v, and 1 to 1000", cfg.Duration, cfg.Rate, maxDuration)
	}
	say := func(format string, args ...any) { fmt.Fprintf(cfg.Out, format+"\n", args...) }
	db, err := openDatabase(ctx, cfg.DatabaseURL, cfg.Postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	say("using %s", db.describe)
	return play(ctx, cfg, db, say)
}

// play is everything between the database and its end.
func play(ctx context.Context, cfg Config, db *database, say func(string, ...any)) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	all := sets()
	pg, err := queue.ParseURL(db.url)
	if err != nil {
		return fmt.Errorf("read the database's URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, pg.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is open
	if err := wantDatabase(ctx, conn, db.name); err != nil {
		return err
	}
	if err := install(ctx, conn, all); err != nil {
		return err
	}
	var workers []*process
	stopWorkers := func() error {
		fail(nil) // nobody is surprised by their end any more
		ps := workers
		workers = nil
		return stopAll(ps)
	}
	defer func() {
		if errors.Is(err, errNotSettled) {
			for _, w := range workers {
				say("log of %s:\n%s", w.name, w.log)
			}
			if db.own() {
				text, _ := db.log()
				say("log of the server:\n%s", text)
			}
		}
		err = errors.Join(err, stopWorkers())
	}()
	for _, s := range all {
		for n := range s.workers {
			w, err := startWorker(cfg.Executable, db, s, n+1)
			if err != nil {
				return err
			}
			workers = append(workers, w)
		}
	}
	watch(ctx, workers, fail)
	if err := awaitWorkers(ctx, conn, all); err != nil {
		return because(ctx, err)
	}
	say("workers: %d %s, %d %s, each a process", all[0].workers, all[0].name, all[1].workers, all[1].name)
	loaded, err := loadSample(ctx, pg, all)
	if err != nil {
		return because(ctx, err)
	}
	say("sample: %d updates with %d tariffs loaded and recomputed in each queue; %d flawed lines rejected, as they should be",
		loaded.Updates.Load(), loaded.Rows.Load(), loaded.Rejected.Load())

	acked, last, err := publishAndShow(ctx, cfg, pg, conn, all, say)
	if err != nil {
		return because(ctx, err)
	}
	if err := settle(ctx, pg, all); err != nil {
		return because(ctx, err)
	}
	if err := last(); err != nil {
		return because(ctx, err)
	}
	v, err := judge(ctx, conn, all, acked)
	if err != nil {
		return because(ctx, err)
	}
	wrong := errors.Join(v.wrong(), stopWorkers())
	say("\nverdict, by SQL:\n%v", v)
	if wrong != nil {
		return fmt.Errorf("the verdict is bad: %w", wrong)
	}
	say("all is right: every published tariff has its price, every id is accounted for, 0 lost")
	return nil
}

// publishAndShow publishes into both sets until the time is up. It returns how many updates were committed, and what shows
// the last figures.
func publishAndShow(ctx context.Context, cfg Config, pg *pgx.ConnConfig, conn *pgx.Conn, all []set, say func(string, ...any)) (acked int64, last func() error, err error) {
	m, exact, err := newMeasurer(ctx, conn)
	if err != nil {
		return 0, nil, err
	}
	how := "from the server's own record of each commit to the start of the first job that took its ids, or the admission of one that the commit handed over"
	if !exact {
		how = "from the clock read right after each commit (this server has track_commit_timestamp off) to the start of the first job that took its ids, or the admission of one that the commit handed over"
	}
	say("publishing about %.0f updates a second into each queue for %v; latency is measured %s\n", cfg.Rate, cfg.Duration, how)
	var publishers []*publisher
	for _, s := range all {
		c, err := pgx.ConnectConfig(ctx, pg.Copy())
		if err != nil {
			return 0, nil, fmt.Errorf("connect a publisher: %w", err)
		}
		defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // each update was committed
		p, err := newPublisher(ctx, c, s, cfg.Rate, exact)
		if err != nil {
			return 0, nil, err
		}
		publishers = append(publishers, p)
	}
	before, err := m.look(ctx, all)
	if err != nil {
		return 0, nil, err
	}
	look := func(ctx context.Context) ([]figures, error) {
		now, err := m.look(ctx, all)
		for i := range now {
			now[i] = now[i].since(before[i])
		}
		return now, err
	}
	screen := &screen{w: cfg.Out, terminal: cfg.Terminal, all: all}
	begun := time.Now()
	timed, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	g, gctx := errgroup.WithContext(timed)
	for _, p := range publishers {
		g.Go(func() error { return p.run(gctx) })
	}
	g.Go(func() error {
		for every := refreshRate(cfg.Terminal); pause(gctx, every); {
			now, err := look(context.WithoutCancel(gctx))
			if err != nil {
				return err
			}
			screen.show(time.Since(begun), now)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return 0, nil, err
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	for _, p := range publishers {
		acked += p.count.Load()
	}
	return acked, func() error {
		now, err := look(ctx)
		if err != nil {
			return err
		}
		screen.last(now)
		return nil
	}, nil
}

func refreshRate(terminal bool) time.Duration {
	if terminal {
		return 250 * time.Millisecond
	}
	return time.Second
}

// because prefers the reason for which ctx ended to what followed from it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}
