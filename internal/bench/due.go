package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const dueAbout = `Jobs enqueued with a delay between 100 ms and 1 s: how long after their due time they were reserved, by the server's clock. One worker in this process, otherwise idle.`

const dueRate = 40 // jobs a second

func dueContenders() []*contender {
	return []*contender{
		{name: "notify when idle", kind: advisory},
		{name: "polling every 100ms", kind: advisory, tag: "_poll100ms", poll: 100 * time.Millisecond},
		{name: "polling every second", kind: advisory, tag: "_poll1s", poll: time.Second},
	}
}

func dueSteps(r *run) int { return r.cfg.Rounds * len(dueContenders()) }

func measureDue(ctx context.Context, r *run, s *Section) error {
	s.About = dueAbout
	cs := dueContenders()
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	for _, c := range cs {
		c.starts.due = true
	}
	res := results(cs)
	for n := range r.cfg.Rounds {
		for _, c := range cs {
			r.step("due times, round %d: %s", n+1, c.name)
			if err := r.dueTurn(ctx, c, res[c]); err != nil {
				return err
			}
		}
	}
	t := Table{Title: "late by", Columns: latencyColumns}
	for _, c := range cs {
		t.Rows = append(t.Rows, latencyRow(c, res[c]))
	}
	s.Tables = append(s.Tables, t)
	s.Notes = append(s.Notes, troublesOf(cs)...)
	s.atMost("lateness p99 of a due job", res[cs[0]].total().p99, 20, "ms")
	return nil
}

func (r *run) dueTurn(ctx context.Context, c *contender, into *rounds) error {
	return r.with(ctx, []*contender{c}, func(ctx context.Context) error {
		if err := r.warm(ctx, []*contender{c}); err != nil {
			return err
		}
		sql := "SELECT job_id FROM " + pgx.Identifier{c.schema}.Sanitize() + ".enqueue_job('" + jobType + "', delay => $1)"
		return r.place.withConn(ctx, func(conn *pgx.Conn) error {
			for end := time.Now().Add(r.cfg.Slice); time.Now().Before(end); {
				var id int64
				if err := conn.QueryRow(ctx, sql, 100*time.Millisecond+rand.N(900*time.Millisecond)).Scan(&id); err != nil {
					return err
				}
				c.starts.ack(id, time.Now())
				if err := pause(ctx, time.Duration(rand.ExpFloat64()/dueRate*float64(time.Second))); err != nil {
					return err
				}
			}
			return c.collect(ctx, into, time.Second+c.poll+2*time.Second)
		})
	})
}
