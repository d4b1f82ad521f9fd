package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const enqueueAbout = `Commits a second of clients that insert jobs one by one as fast as they can (INSERT INTO jobs, one a transaction), and how many of them were done within the same time by ` +
	`one worker, a process with the default of 8 slots. "No triggers": those of notifyworker on jobs are switched off. ` +
	`Draining: the worker does these jobs, which do nothing, on the same machine. Slots full: the worker lives, but has no slot free. ` +
	`Ratios are taken round by round.`

var enqueueClients = []int{1, 16, 64}

func enqueueContenders() []*contender {
	return []*contender{
		{name: "no triggers, no worker", kind: bare},
		{name: "notify when idle, no worker", kind: advisory},
		{name: "notify when idle, slots full", kind: advisory, processes: 1, hold: true},
		{name: "no triggers, draining by polling every 10ms", kind: bare, processes: 1, poll: 10 * time.Millisecond},
		{name: "notify when idle, draining", kind: advisory, processes: 1},
		{name: "notify always, draining", kind: always, processes: 1},
	}
}

func enqueueSteps(r *run) int { return r.cfg.Rounds * len(enqueueClients) * len(enqueueContenders()) }

func measureEnqueue(ctx context.Context, r *run, s *Section) error {
	s.About = enqueueAbout
	cs := enqueueContenders()
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	rates, done := map[int][][]float64{}, map[int][][]float64{}
	for _, clients := range enqueueClients {
		rates[clients], done[clients] = make([][]float64, len(cs)), make([][]float64, len(cs))
		if clients+16 > r.place.spare {
			s.Notes = append(s.Notes, fmt.Sprintf("not measured at %d connections: the server has only %d left", clients, r.place.spare))
		}
	}
	for n := range r.cfg.Rounds {
		for _, clients := range enqueueClients {
			for i, c := range cs {
				r.step("enqueueing on %s, round %d: %s", connections(clients), n+1, c.name)
				if clients+16 > r.place.spare {
					continue
				}
				made, worked, err := r.insertTurn(ctx, c, clients)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", c.name, clients, err)
				}
				rates[clients][i], done[clients][i] = append(rates[clients][i], made), append(done[clients][i], worked)
			}
		}
	}
	chart := Chart{Title: "Commits a second that enqueue", Unit: "jobs/s"}
	for i, c := range cs {
		chart.Series = append(chart.Series, Series{Name: c.name})
		for _, clients := range enqueueClients {
			chart.Series[i].Values = append(chart.Series[i].Values, Number(median(rates[clients][i])))
		}
	}
	for _, clients := range enqueueClients {
		chart.Labels = append(chart.Labels, connections(clients))
		t := Table{Title: connections(clients), Columns: []Column{{"enqueued/s", ""}, {"done/s", ""}, {"by no triggers, no worker", ""}, {"by no triggers, draining", ""}}}
		for i, c := range cs {
			line := row(c.name, median(rates[clients][i]), median(done[clients][i]), medianRatio(rates[clients][i], rates[clients][0]), medianRatio(rates[clients][i], rates[clients][3]))
			line.Errors, _ = c.errors()
			t.Rows = append(t.Rows, line)
		}
		s.Tables = append(s.Tables, t)
		if clients > 1 {
			s.atLeast(fmt.Sprintf("enqueue rate at %d connections, worker live and its slots full, by no triggers", clients), medianRatio(rates[clients][2], rates[clients][0]), 0.85, "×")
			s.atLeast(fmt.Sprintf("enqueue rate at %d connections, worker draining, by no triggers and the same draining", clients), medianRatio(rates[clients][4], rates[clients][3]), 0.85, "×")
		}
	}
	s.Charts = append(s.Charts, chart)
	s.Notes = append(s.Notes, troublesOf(cs)...)
	return nil
}

func connections(n int) string { return several(n, "connection", "connections") }

// insertTurn returns how many jobs a second were committed and how many done.
func (r *run) insertTurn(ctx context.Context, c *contender, clients int) (made, done float64, err error) {
	work := r.with
	if c.processes == 0 {
		work = func(ctx context.Context, _ []*contender, f func(context.Context) error) error {
			if err := r.clear(ctx, c.schema); err != nil {
				return err
			}
			return f(ctx)
		}
	}
	err = work(ctx, []*contender{c}, func(ctx context.Context) error {
		if c.hold {
			if err := r.fillSlots(ctx, c); err != nil {
				return err
			}
		}
		return r.place.withConn(ctx, func(conn *pgx.Conn) error {
			var from slice
			n, err := r.insertLoop(ctx, c, clients, r.cfg.Slice, func() (err error) {
				from, err = r.begin(ctx, conn, c.schema)
				return err
			})
			if err != nil {
				return err
			}
			ended, err := r.endedWithin(ctx, conn, c.schema, from, r.cfg.Slice)
			made, done = float64(n)/r.cfg.Slice.Seconds(), float64(ended)/r.cfg.Slice.Seconds()
			return err
		})
	})
	return made, done, err
}

// insertLoop lets clients insert jobs as fast as they can for so long. Only commits within that time count. The first one of
// each client comes before: it makes the plans of statement and triggers, which a client's connection keeps. begin is called once
// in between, when nobody is at it.
func (r *run) insertLoop(ctx context.Context, c *contender, clients int, d time.Duration, begin func() error) (n int, err error) {
	sql := "INSERT /* bench client */ INTO " + pgx.Identifier{c.schema, "jobs"}.Sanitize() + " (type) VALUES ('" + jobType + "')"
	begun := sync.OnceValue(begin)
	prepare := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Prepare(ctx, sql, sql)
		if err == nil {
			_, err = conn.Exec(ctx, sql)
		}
		return err
	}
	n, _, err = r.clients(ctx, clients, prepare, func(ctx context.Context, conn *pgx.Conn, _ time.Time) (n int, err error) {
		if err := begun(); err != nil {
			return 0, err
		}
		for end := time.Now().Add(d); ; n++ {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return n, err
			}
			if time.Now().After(end) {
				return n, nil
			}
		}
	})
	return n, err
}

// slice is where a time that counts begins.
type slice struct {
	newest int64     // job before it
	at     time.Time // by the server's clock
}

func (r *run) begin(ctx context.Context, conn *pgx.Conn, schema string) (s slice, err error) {
	err = conn.QueryRow(ctx, "SELECT /* bench client */ coalesce(max(id), 0), clock_timestamp() FROM "+pgx.Identifier{schema, "jobs"}.Sanitize()).Scan(&s.newest, &s.at)
	return s, err
}

// endedWithin is how many jobs have come and been concluded within so long.
func (r *run) endedWithin(ctx context.Context, conn *pgx.Conn, schema string, from slice, d time.Duration) (n int, err error) {
	err = conn.QueryRow(ctx, "SELECT /* bench client */ count(*) FROM "+pgx.Identifier{schema, "jobs"}.Sanitize()+" WHERE id > $1 AND finished_at >= $2 AND finished_at < $3",
		from.newest, from.at, from.at.Add(d)).Scan(&n)
	return n, err
}

// fillSlots gives a worker as many jobs as it has slots, which don't end, and waits until it wants no notifications.
func (r *run) fillSlots(ctx context.Context, c *contender) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, errors.New("its slots are not full after a minute"))
	defer cancel()
	return r.place.withConn(ctx, func(conn *pgx.Conn) error {
		schema := pgx.Identifier{c.schema}.Sanitize()
		if _, err := conn.Exec(ctx, "INSERT INTO "+schema+".jobs (type) SELECT '"+holdType+"' FROM generate_series(1, 8)"); err != nil {
			return err
		}
		for {
			var full bool
			err := conn.QueryRow(ctx, "SELECT count(*) = 8 AND NOT EXISTS (SELECT FROM "+schema+".workers WHERE wants_notify) FROM "+schema+".jobs WHERE status = 'RUNNING'").Scan(&full)
			if err != nil || full {
				return err
			}
			if pause(ctx, 5*time.Millisecond) != nil {
				return context.Cause(ctx)
			}
		}
	})
}
