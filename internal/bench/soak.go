package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// endurance is one worker process under an even load for a long time.
type endurance struct {
	c       *contender
	rate    float64       // jobs a second
	free    time.Duration // without anybody's snapshot
	pinned  time.Duration // with one
	history int           // finished jobs that lie there already
	samples []stretch
	before  map[string]float64 // MiB of the table and of each index
	after   map[string]float64
	named   float64 // 1 when the worker's log named who pins vacuum, 0 when not; NaN when it had no time for it
}

// stretch is a part of the time.
type stretch struct {
	at      time.Duration // since the beginning, to its end
	seconds float64
	pinned  bool
	took    []time.Duration // from commit to start
	waiting int             // jobs committed, but not begun at its end
	full    histogram       // looks that found a job
	empty   histogram       // and those that found nothing
	memory  float64         // MiB
	files   float64         // open descriptors
	dead    float64         // rows, as the server counts them
	size    float64         // MiB, indexes included
}

// A worker asks who pins vacuum every 20 s, and warns of a snapshot of a minute.
const warnsWithin = 90 * time.Second

func (e *endurance) total() time.Duration { return e.free + e.pinned }

// interval is how long a stretch is: a twentieth of the time, 30 s at most.
func (e *endurance) interval() time.Duration { return min(e.total()/20, 30*time.Second) }

func (e *endurance) steps() int { return 1 + int((e.total()+e.interval()-1)/e.interval()) }

// endure fills the history, starts the worker, and lets clients enqueue while it takes samples.
func (r *run) endure(ctx context.Context, e *endurance) error {
	if err := r.prepare(ctx, []*contender{e.c}); err != nil {
		return err
	}
	r.step("%s: making %v finished jobs", e.c.name, Number(e.history))
	if err := r.seed(ctx, e.c.schema, e.history); err != nil {
		return err
	}
	return r.place.withConn(ctx, func(conn *pgx.Conn) (err error) {
		if e.before, err = sizes(ctx, conn, e.c.schema); err != nil {
			return err
		}
		if err := r.withWorkers(ctx, []*contender{e.c}, func(ctx context.Context) error { return r.load(ctx, conn, e) }); err != nil {
			return err
		}
		e.after, err = sizes(ctx, conn, e.c.schema)
		return err
	})
}

// load has the clients, who takes the samples, and at its time the snapshot.
func (r *run) load(ctx context.Context, conn *pgx.Conn, e *endurance) error {
	procs := e.c.running()
	if len(procs) == 0 {
		return errors.New("the worker is gone")
	}
	journal := procs[0].journal
	url, err := journal.url(ctx)
	if err != nil {
		return err
	}
	if err := r.warm(ctx, []*contender{e.c}); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, _, err := r.openLoop(ctx, e.c, e.rate, e.total())
		return err
	})
	g.Go(func() error { return r.watch(ctx, conn, e, journal, url) })
	return g.Wait()
}

func (r *run) watch(ctx context.Context, conn *pgx.Conn, e *endurance, journal *journal, url string) (err error) {
	var who *foreign
	defer func() {
		if who != nil {
			who.close(ctx)
		}
	}()
	began := time.Now()
	from := began
	last, err := e.look(ctx, conn, url)
	if err != nil {
		return err
	}
	for from.Sub(began) < e.total()-e.interval()/2 {
		if who == nil && from.Sub(began) >= e.free-e.interval()/2 {
			if who, err = r.pin(ctx); err != nil {
				return err
			}
		}
		r.step("%s: %v of %v%s", e.c.name, from.Sub(began).Round(time.Second), e.total(), e.state(last, who != nil))
		next := began.Add((time.Since(began)/e.interval() + 1) * e.interval()) // whatever the last look took
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
		now, err := e.look(ctx, conn, url)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !conn.IsClosed() && time.Since(began) < e.total(): // one look that fails must not cost half an hour: the next is of twice the time
			e.c.starts.failed(err)
			continue
		case err != nil:
			return err
		}
		one := now
		one.at, one.seconds, one.pinned = now.moment.Sub(began), now.moment.Sub(from).Seconds(), who != nil
		one.full, one.empty = now.full.since(last.full), now.empty.since(last.empty)
		e.samples = append(e.samples, one.stretch)
		last, from = now, now.moment
	}
	if who == nil {
		return errors.New("the time was too short for a snapshot")
	}
	e.named = math.NaN()
	if e.pinned >= warnsWithin {
		e.named = 0
	}
	if journal.names(who.pid) {
		e.named = 1
	}
	return who.held(ctx)
}

// state is for whoever watches the progress.
func (e *endurance) state(last glance, pinned bool) string {
	text := ""
	if pinned {
		text = ", vacuum pinned"
	}
	if len(e.samples) > 0 {
		s := e.samples[len(e.samples)-1]
		text += fmt.Sprintf("; lately %v jobs/s, reservation p99 %v ms, %v dead rows", Number(s.rate()), Number(s.full.quantile(0.99)), Number(last.dead))
	}
	return text
}

// glance is a stretch whose histograms count from the start of the worker.
type glance struct {
	stretch
	moment time.Time
}

// look asks the worker, the system and the server how things stand.
func (e *endurance) look(ctx context.Context, conn *pgx.Conn, url string) (g glance, err error) {
	m, err := scrape(ctx, url)
	if err != nil {
		return g, err
	}
	if g.full, err = m.histogram("notifyworker_look_seconds", "found", "jobs"); err != nil {
		return g, err
	}
	if g.empty, err = m.histogram("notifyworker_look_seconds", "found", "nothing"); err != nil {
		return g, err
	}
	_, rss, err := e.c.usage(ctx)
	if err != nil {
		return g, err
	}
	g.memory, g.files = mib(rss), e.c.descriptors(ctx)
	schema := pgx.Identifier{e.c.schema, "jobs"}.Sanitize()
	err = conn.QueryRow(ctx, `SELECT /* bench client */ n_dead_tup::float8, pg_total_relation_size(relid) / 1048576.0::float8 FROM pg_stat_all_tables WHERE relid = $1::regclass`, schema).
		Scan(&g.dead, &g.size)
	if err == nil { // or the next look would miss them
		g.moment = time.Now()
		g.took, g.waiting = e.c.starts.take()
	}
	return g, err
}

// sizes are in MiB, by name: the table's and those of its indexes.
func sizes(ctx context.Context, conn *pgx.Conn, schema string) (map[string]float64, error) {
	rows, err := conn.Query(ctx, `SELECT /* bench client */ c.relname, pg_relation_size(c.oid) / 1048576.0::float8 FROM pg_class c
		WHERE c.oid = $1::regclass OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = $1::regclass)`, pgx.Identifier{schema, "jobs"}.Sanitize())
	if err != nil {
		return nil, fmt.Errorf("ask for the sizes of indexes: %w", err)
	}
	all := map[string]float64{}
	var name string
	var size float64
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error { all[name] = size; return nil })
	return all, err
}

func (s stretch) rate() float64 { return float64(len(s.took)) / s.seconds }
