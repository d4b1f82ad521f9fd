package queue_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
)

const (
	plainInsert = `INSERT INTO notifyworker.jobs (type) VALUES ('bench')`
	// As the commit of a client leaves it that hands its job over.
	handedInsert = `INSERT INTO notifyworker.jobs (type, status, lock_token, worker_id, attempts, started_at, lease_expires_at)
		VALUES ('bench', 'RUNNING', (left(overlay(gen_random_uuid()::text PLACING '8' FROM 15 FOR 1), 28) || (SELECT lpad(to_hex(objid::bigint), 8, '0') FROM pg_locks
			WHERE locktype = 'advisory' AND classid = 1853292549 AND pid = pg_backend_pid()))::uuid, '` + workerA + `', 1, now(), now() + interval '8 s')`
	plainUpdate = `UPDATE notifyworker.jobs SET status = 'RUNNING', lock_token = gen_random_uuid(), worker_id = '` + workerA + `',
		       attempts = attempts + 1, started_at = clock_timestamp(), updated_at = now(), lease_expires_at = clock_timestamp() + interval '30 s'
		 WHERE id = (SELECT id FROM notifyworker.jobs WHERE status = 'PENDING' AND run_after <= now() ORDER BY run_after, id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, config, lock_token`

	// What a brief reserve does by one UPDATE, by id where that goes by place, and without the function around it.
	fullUpdate = `UPDATE notifyworker.jobs j SET status = 'RUNNING', lock_token = gen_random_uuid(), worker_id = '` + workerA + `',
		       attempts = least(j.attempts, 2147483646) + 1, started_at = statement_timestamp(), updated_at = statement_timestamp(),
		       lease_expires_at = statement_timestamp() + coalesce(('{}'::jsonb ->> j.type)::integer, 30000) * interval '1 ms'
		 WHERE j.id = ANY (ARRAY(SELECT id FROM notifyworker.jobs WHERE status = 'PENDING' AND run_after <= statement_timestamp() ORDER BY run_after, id LIMIT 8 FOR UPDATE SKIP LOCKED))
		   AND CASE WHEN j.type = 'PRICE_REFRESH' THEN notifyworker.stands_alone(j.tenant_id, j.catalog_id, j.config, j.product_count, j.successor, 50000) ELSE true END
		RETURNING j.id, j.tenant_id, j.type, j.operated_by, j.config, j.trace_id, j.catalog_id, j.product_count, j.lock_token, j.attempts,
		       j.max_attempts, j.created_at, j.run_after, j.started_at, j.lease_expires_at`

	noRules     = `ALTER TABLE notifyworker.jobs DROP CONSTRAINT jobs_sound;`
	noTriggers  = `DROP TRIGGER jobs_freeze ON notifyworker.jobs; DROP TRIGGER jobs_guard_pending ON notifyworker.jobs; DROP TRIGGER jobs_announce_update ON notifyworker.jobs;`
	noHistories = `DROP INDEX notifyworker.jobs_stats_idx, notifyworker.jobs_type_tenant_created_idx, notifyworker.jobs_price_refresh_pending_catalog_uq, notifyworker.jobs_lease_idx;`

	// The least that can be reserved from.
	floorTable = `DROP TABLE notifyworker.jobs CASCADE;
		CREATE TABLE notifyworker.jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text, status text NOT NULL DEFAULT 'PENDING', config jsonb NOT NULL DEFAULT '{}',
			lock_token uuid, run_after timestamptz NOT NULL DEFAULT now(), started_at timestamptz);
		CREATE INDEX ON notifyworker.jobs (run_after, id) WHERE status = 'PENDING'`
	floorUpdate = `UPDATE notifyworker.jobs SET status = 'RUNNING', lock_token = gen_random_uuid(), started_at = clock_timestamp()
		 WHERE id = (SELECT id FROM notifyworker.jobs WHERE status = 'PENDING' AND run_after <= now() ORDER BY run_after, id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, config, lock_token`
)

// BenchmarkParts reserves single jobs in turns from tables that lack one thing or another, and reports for each the first quartile
// of microseconds from question to answer: what that thing costs a reservation. "idle" leaves 10 to 20 ms between one and the
// next, as a worker that sleeps does: by then the processor has forgotten the server's code and data, and all takes longer.
func BenchmarkParts(b *testing.B) {
	b.Run("at_once", func(b *testing.B) { benchmarkParts(b, 0) })
	b.Run("idle", func(b *testing.B) { benchmarkParts(b, 10*time.Millisecond) })
}

func benchmarkParts(b *testing.B, pause time.Duration) {
	parts := []*part{
		{name: "floor", change: floorTable, reserve: floorUpdate},
		{name: "UPDATE-bare-table", change: noRules + noTriggers + noHistories, reserve: plainUpdate},
		{name: "UPDATE-no-rules", change: noRules, reserve: plainUpdate},
		{name: "UPDATE-no-triggers", change: noTriggers, reserve: plainUpdate},
		{name: "UPDATE-two-indexes", change: noHistories, reserve: plainUpdate},
		{name: "UPDATE", reserve: plainUpdate},
		{name: "UPDATE-as-reserve", reserve: fullUpdate},
		{name: "reserve-brief", reserve: `SELECT * FROM notifyworker.reserve(8, '` + workerA + `', 30000, p_brief => true)`},
		{name: "take", insert: handedInsert, take: true},
		{name: "reserve", reserve: `SELECT * FROM notifyworker.reserve(8, '` + workerA + `', 30000)`},
	}
	for _, p := range parts {
		p.begin(b)
	}
	inTurns(b, parts, func(p *part) { p.once(b, pause) })
}

// inTurns measures parts in turns, and reports the first quartile of each.
func inTurns(b *testing.B, parts []*part, once func(*part)) {
	for b.Loop() {
		for _, i := range rand.Perm(len(parts)) {
			once(parts[i])
		}
	}
	for _, p := range parts {
		slices.Sort(p.took)
		b.ReportMetric(float64(p.took[len(p.took)/4].Nanoseconds())/1000, "µs/"+p.name)
	}
	b.ReportMetric(0, "ns/op")
}

// rest leaves the time between one job and the next, in which the processor forgets.
func rest(pause time.Duration) {
	if pause > 0 {
		time.Sleep(pause + rand.N(pause))
	}
}

type part struct {
	name, change, reserve string
	insert                string // "": plainInsert
	take                  bool   // by the session that hears of it, not by reserve
	store                 *queue.Store
	conn                  *pgx.Conn
	took                  []time.Duration
}

func (p *part) begin(b *testing.B) {
	tb := newTable(b)
	c, err := tb.pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Release)
	p.conn, p.store = c.Conn(), tb.Store
	if p.take {
		if err := p.store.OpenHands(b.Context(), p.conn); err != nil {
			b.Fatal(err)
		}
	}
	for sql := range strings.SplitSeq(p.change, ";") {
		p.exec(b, sql)
	}
}

func (p *part) exec(b *testing.B, sql string) {
	if _, err := p.conn.Exec(b.Context(), sql); err != nil {
		b.Fatalf("%s: %s: %v", p.name, sql, err)
	}
}

func (p *part) once(b *testing.B, pause time.Duration) {
	p.exec(b, cmp.Or(p.insert, plainInsert))
	var id int64
	if err := p.conn.QueryRow(b.Context(), `SELECT max(id) FROM notifyworker.jobs`).Scan(&id); err != nil {
		b.Fatal(p.name, err)
	}
	rest(pause)
	began := time.Now()
	n, err := p.ask(b, id)
	if p.took = append(p.took, time.Since(began)); err != nil || n == 0 {
		b.Fatal(p.name, n, err)
	}
	p.exec(b, `DELETE FROM notifyworker.jobs`)
}

// ask has the job, and returns how many it has.
func (p *part) ask(b *testing.B, id int64) (n int, err error) {
	if p.take {
		h, _, err := p.store.Take(b.Context(), id)
		if h != nil {
			p.store.Let(*h)
			n = 1
		}
		return n, err
	}
	rows, err := p.conn.Query(b.Context(), p.reserve)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// BenchmarkRare reserves a single job by a brief look more than a second after the last one, and reports the median of microseconds:
// with the question before it whether the connection still lives, and without, as it is.
func BenchmarkRare(b *testing.B) {
	db := pgtest.DB(b)
	pool, err := queue.OpenPool(b.Context(), db.URL, "rare", 2)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	store, err := queue.New(queue.Config{DB: pool, WorkerID: workerA})
	if err != nil {
		b.Fatal(err)
	}
	ways := []func(context.Context, int) (queue.Reservation, error){store.ReserveBriefly, store.ReserveAsking}
	took := make([][]time.Duration, len(ways))
	client := db.Pool(b)
	for b.Loop() {
		for _, i := range rand.Perm(len(ways)) {
			time.Sleep(1100 * time.Millisecond)
			if _, err := client.Exec(b.Context(), plainInsert); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			r, err := ways[i](b.Context(), 8)
			if took[i] = append(took[i], time.Since(began)); err != nil || len(r.Jobs) != 1 {
				b.Fatalf("got %+v, %v", r, err)
			}
		}
	}
	for i, name := range []string{"unasked", "asked"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1000, "µs/"+name)
	}
	b.ReportMetric(0, "ns/op")
}
