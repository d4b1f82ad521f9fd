package bench

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"notifyworker/migrations"
)

// What earlier turns have left would be measured as if it were the history.
func TestClearLeavesTheHistoryAndNothingOfTheTurnsAfterIt(t *testing.T) {
	r := benchRun(t, Config{})
	schema, err := r.schema(t.Context(), advisory, "_grown")
	if err != nil {
		t.Fatal(err)
	}
	const history = 100
	if err := r.seed(t.Context(), schema, history); err != nil {
		t.Fatal(err)
	}
	for turn := range int64(2) {
		mustScript(t, r, `INSERT INTO :"schema".jobs (type) SELECT 'bench' FROM generate_series(1, 50);
			UPDATE :"schema".jobs SET status = 'RUNNING', attempts = 1, lock_token = gen_random_uuid(), worker_id = gen_random_uuid(), started_at = now(), lease_expires_at = now()
			 WHERE status = 'PENDING' AND id % 3 > 0;
			UPDATE :"schema".jobs SET status = 'COMPLETED', lock_token = NULL, worker_id = NULL, lease_expires_at = NULL, finished_at = now()
			 WHERE status = 'RUNNING' AND id % 3 > 1`, schema)
		if err := r.clear(t.Context(), schema); err != nil {
			t.Fatal(err)
		}
		err := r.place.withConn(t.Context(), func(conn *pgx.Conn) error {
			var left, vacuums int64
			err := conn.QueryRow(t.Context(), migrations.Render(`SELECT count(*), (SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = ':"schema".jobs'::regclass)
				FROM :"schema".jobs`, schema)).Scan(&left, &vacuums)
			if left != history || vacuums != turn+2 {
				t.Errorf("turn %d leaves %d jobs and has vacuumed %d times, want %d and %d", turn, left, vacuums, history, turn+2)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Two sections that share a schema don't share a history.
func TestAHistoryTakesThePlaceOfTheOneBefore(t *testing.T) {
	r := benchRun(t, Config{})
	schema, err := r.schema(t.Context(), advisory, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, history := range []int{100, 30, 0} {
		if err := r.seed(t.Context(), schema, history); err != nil {
			t.Fatal(err)
		}
		err := r.place.withConn(t.Context(), func(conn *pgx.Conn) error {
			n, err := r.ended(t.Context(), conn, schema, 0)
			if n != history {
				t.Errorf("%d finished jobs, want %d", n, history)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
