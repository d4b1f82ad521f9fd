package observe

import (
	"context"
	"sync"
	"time"

	"notifyworker/internal/queue"
)

const lookFor = 4 * time.Second // how long a look at the database is kept

// looks keeps the last look at a database.
type looks struct {
	mu   sync.Mutex // one look at a time
	at   time.Time
	last look
}

// look is what the database has said; what it did not say is nil.
type look struct {
	depth     []queue.Depth
	known     bool // depth is
	pressure  *queue.Pressure
	additions *additions
}

type additions struct {
	n      int64
	oldest time.Duration
}

// look asks, unless that was done some seconds ago. The questions are apart: one that takes too long (a table that is locked, or
// full of dead rows) does not cost the answers to the others.
func (k *looks) look(ctx context.Context, d *Database, s Store) look {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) < lookFor && !k.at.IsZero() {
		return k.last
	}
	var l look
	ctx, done := context.WithTimeout(ctx, 2*askWithin)
	defer done()
	for _, ask := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			p, err := s.Pressure(ctx)
			if err == nil {
				l.pressure = &p
			}
			return err
		},
		func(ctx context.Context) (err error) {
			l.depth, err = s.Depth(ctx)
			l.known = err == nil
			return err
		},
		func(ctx context.Context) error {
			n, oldest, err := s.Additions(ctx)
			if err == nil {
				l.additions = &additions{n, oldest}
			}
			return err
		},
	} {
		ctx, done := context.WithTimeout(ctx, askWithin)
		err := ask(ctx)
		done()
		if err != nil {
			d.scrapeErrors.Add(1)
			d.log.Debug().Err(err).Msg("the database did not answer a question for metrics")
		}
	}
	k.last, k.at = l, time.Now()
	return l
}

func (d *Database) collectLook(e emitter, l look) {
	if l.known {
		d.collectDepth(e, l.depth)
	}
	if a := l.additions; a != nil {
		e.gauge("additions", "Rows that wait to join a job, at most 100000 of them counted.", float64(a.n))
		e.gauge("additions_oldest_age_seconds", "Age of the oldest of them.", a.oldest.Seconds())
	}
	p := l.pressure
	if p == nil {
		return
	}
	e.gauge("notify_queue_usage_ratio", "Share of the server's notification queue in use: at 1, commits that notify fail.", p.NotifyQueue)
	e.gauge("workers_alive", "Worker processes on this schema.", float64(p.Workers))
	e.gauge("workers_wanting_notify", "Of these, those that sleep and want to be told of jobs.", float64(p.Wanting))
	age := d.pins.age(p.Oldest, time.Now())
	e.gauge("oldest_snapshot_age_seconds", "Age of the database's oldest snapshot: vacuum removes nothing that died since. At least: see the log for whose it is.", age.Seconds())
	e.gauge("oldest_snapshot_transactions", "Transactions begun since it was taken.", float64(p.Oldest.XIDs))
	e.gauge("oldest_snapshot_pid", "Process id of the backend that has it; 0: none, a prepared transaction, or the slot of a standby that is away.", float64(p.Oldest.PID))
}

func (d *Database) collectDepth(e emitter, depth []queue.Depth) {
	byType := map[string]queue.Depth{}
	for _, one := range depth {
		name := d.types.of(one.Type)
		sum := byType[name]
		sum.Pending, sum.Due, sum.Running, sum.WaitingIDs = sum.Pending+one.Pending, sum.Due+one.Due, sum.Running+one.Running, sum.WaitingIDs+one.WaitingIDs
		sum.OldestDue = max(sum.OldestDue, one.OldestDue)
		byType[name] = sum
	}
	for _, known := range d.types.all() {
		if _, ok := byType[known]; !ok {
			byType[known] = queue.Depth{}
		}
	}
	for name, sum := range byType {
		const jobs = "Jobs on this schema that have not ended, by type: waiting ones are not due yet."
		e.gauge("queue_jobs", jobs, float64(sum.Pending-sum.Due), "type", name, "state", "waiting")
		e.gauge("queue_jobs", jobs, float64(sum.Due), "type", name, "state", "due")
		e.gauge("queue_jobs", jobs, float64(sum.Running), "type", name, "state", "running")
		e.gauge("queue_waiting_ids", "Product ids in PENDING jobs; additions that have not been taken are not counted.", float64(sum.WaitingIDs), "type", name)
		e.gauge("queue_oldest_due_seconds", "How long the longest due job has been waiting for a worker.", sum.OldestDue.Seconds(), "type", name)
	}
}
