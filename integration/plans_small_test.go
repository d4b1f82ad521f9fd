package integration

import (
	"context"
	"testing"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// Plans are made once a session, often when the queue is new or has just been emptied, and serve until the table is analyzed
// again, which takes autovacuum up to a minute. A plan that reads the whole table is good then, and bad a minute later.
func TestNoPlanForASmallTableReadsALargeOne(t *testing.T) {
	for name, analyze := range map[string]bool{"never analyzed": false, "analyzed when it was small": true} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, queue.Config{})
			tb.exec(`ALTER TABLE notifyworker.jobs SET (autovacuum_enabled = off)`)
			tb.exec(`ALTER TABLE notifyworker.job_additions SET (autovacuum_enabled = off)`)
			if analyze {
				tb.exec(`SELECT notifyworker.enqueue_job('t') FROM generate_series(1, 5)`)
				tb.complete(tb.reserve(5)...)
				tb.exec(`VACUUM ANALYZE notifyworker.jobs, notifyworker.job_additions`)
			}
			c := tb.db.Conn(t)
			s, err := queue.New(queue.Config{DB: c, WorkerID: workerID})
			if err != nil {
				t.Fatal(err)
			}
			calls := smallTableCalls(s, c)
			for range 8 { // from the sixth on plans are kept
				for _, k := range calls {
					if err := k.do(t.Context()); err != nil {
						t.Fatalf("%s: %v", k.name, err)
					}
				}
			}
			tb.exec(`INSERT INTO notifyworker.jobs (type, status, created_at, run_after, started_at, finished_at, duration_ms)
				SELECT 't', 'COMPLETED', d, d, d, d, 1 FROM (SELECT now() - g * interval '1 ms' AS d FROM generate_series(1, 20000) g) x`)
			tb.run(c, `BEGIN`) // the counters are the transaction's
			for range 2 {
				for _, k := range calls {
					before := scansOf(t, c)
					if err := k.do(t.Context()); err != nil {
						t.Fatalf("%s: %v", k.name, err)
					}
					if got := scansOf(t, c); got.seq != before.seq || got.rows-before.rows > 1000 {
						t.Errorf("%s: %d scans of the whole table, %d rows read", k.name, got.seq-before.seq, got.rows-before.rows)
					}
				}
			}
			tb.run(c, `COMMIT`)
		})
	}
}

type smallTableCall struct {
	name string
	do   func(context.Context) error
}

// smallTableCalls is what a client and a worker do all the time, in an order in which each finds what it needs.
func smallTableCalls(s *queue.Store, c *pgx.Conn) []smallTableCall {
	var jobs []queue.Job
	exec := func(sql string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Exec(ctx, sql)
			return err
		}
	}
	reserve := func(ctx context.Context) error {
		r, err := s.Reserve(ctx, 10)
		jobs = r.Jobs
		return err
	}
	complete := func(ctx context.Context) error {
		var cs []queue.Completion
		for _, j := range jobs {
			cs = append(cs, queue.Completion{ID: j.ID, Token: j.Token})
		}
		_, err := s.Complete(ctx, append(cs, queue.Completion{ID: 1, Token: workerID})) // and one that is lost: it is asked for
		return err
	}
	return []smallTableCall{
		{"enqueue a job for a brief look", exec(`SELECT notifyworker.enqueue_job('t')`)},
		{"reserve briefly", func(ctx context.Context) error {
			r, err := s.ReserveBriefly(ctx, 10)
			jobs = r.Jobs
			return err
		}},
		{"complete what it got", complete},
		{"enqueue a job", exec(`SELECT notifyworker.enqueue_job('t')`)},
		{"enqueue the first", exec(`SELECT notifyworker.enqueue_price_refresh('c', '["a"]')`)},
		{"enqueue one that joins", exec(`SELECT notifyworker.enqueue_price_refresh('c', '["b"]')`)},
		{"reserve", reserve},
		{"extend", func(ctx context.Context) error {
			var held []queue.Held
			for _, j := range jobs {
				held = append(held, queue.Held{ID: j.ID, Token: j.Token, Type: j.Type})
			}
			_, _, err := s.Extend(ctx, held)
			return err
		}},
		{"progress", func(ctx context.Context) error {
			return s.Progress(ctx, jobs[0].ID, jobs[0].Token, []byte(`{"n": 1}`))
		}},
		{"requeue", func(ctx context.Context) error {
			for _, j := range jobs {
				if _, err := s.Requeue(ctx, queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"reserve again", reserve},
		{"complete", complete},
		{"rescue", func(ctx context.Context) error {
			_, err := s.Rescue(ctx, 10)
			return err
		}},
		{"sweep", func(ctx context.Context) error {
			_, err := s.Sweep(ctx)
			return err
		}},
	}
}
