package queue_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	sleeps = `INSERT INTO notifyworker.workers (id, host, pid, version, slots, wants_notify, last_beat) VALUES ('` + workerA + `', 'h', 1, 'v', 8, true, now() + interval '1 h');`
	takes  = sleeps + `UPDATE notifyworker.workers SET hands = '{"key": 77, "lease": 8000, "leases": {}, "ids": 50000}';`
	noFK   = `ALTER TABLE notifyworker.jobs DROP CONSTRAINT jobs_tenant_id_fkey;`
)

// BenchmarkHandOver enqueues single jobs by an INSERT in turns, and reports for each the first quartile of microseconds from
// question to answer: what a client's commit pays for waking a sleeper, and what of the table that is for. "idle" as in
// BenchmarkParts.
func BenchmarkHandOver(b *testing.B) {
	b.Run("at_once", func(b *testing.B) { benchmarkHandOver(b, 0) })
	b.Run("idle", func(b *testing.B) { benchmarkHandOver(b, 10*time.Millisecond) })
}

func benchmarkHandOver(b *testing.B, pause time.Duration) {
	ways := []*part{
		{name: "nobody-sleeps"},
		{name: "told", change: sleeps},
		{name: "handed", change: takes},
		{name: "handed-no-foreign-key", change: takes + noFK},
		{name: "handed-no-rules", change: takes + noRules},
		{name: "handed-two-indexes", change: takes + noHistories},
		{name: "handed-none-of-these", change: takes + noFK + noRules + noHistories},
	}
	for _, w := range ways {
		w.begin(b)
		hands, err := pgx.ConnectConfig(b.Context(), w.conn.Config())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = hands.Close(b.Context()) })
		if _, err := hands.Exec(b.Context(), `SELECT pg_advisory_lock(1853292549, 77)`); err != nil {
			b.Fatal(err)
		}
	}
	inTurns(b, ways, func(w *part) {
		rest(pause)
		began := time.Now()
		w.exec(b, plainInsert)
		w.took = append(w.took, time.Since(began))
		w.exec(b, `DELETE FROM notifyworker.jobs`)
	})
}
