package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Leases end together, as those of a look begin together: their order says nothing of which jobs are behind which.
func TestJobsThatCantBeRescuedDontHideThoseBehindThem(t *testing.T) {
	for name, stick := range map[string]func(tb table) (letGo func()){
		"locked by somebody": func(tb table) func() {
			tx, err := tb.pool.BeginTx(context.Background(), pgx.TxOptions{})
			if err != nil {
				tb.t.Fatal(err)
			}
			if _, err := tx.Exec(context.Background(), `SELECT FROM notifyworker.jobs WHERE type = 'stuck' FOR UPDATE`); err != nil {
				tb.t.Fatal(err)
			}
			return func() { _ = tx.Rollback(context.Background()) }
		},
		"a trigger raises": func(tb table) func() {
			tb.exec(`CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
			tb.exec(`CREATE TRIGGER poison BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW WHEN (OLD.type = 'stuck') EXECUTE FUNCTION raise()`)
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t)
			tb.exec(`SELECT notifyworker.enqueue_job('stuck') FROM generate_series(1, 12)`)
			tb.exec(`SELECT notifyworker.enqueue_job('free') FROM generate_series(1, 3)`)
			tb.reserve(15)
			tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = now() - CASE type WHEN 'free' THEN interval '1 s' ELSE interval '2 s' END`)
			tb.exec(`UPDATE notifyworker.jobs SET lease_expires_at = (SELECT max(lease_expires_at) FROM notifyworker.jobs WHERE type = 'stuck') WHERE id = (SELECT min(id) FROM notifyworker.jobs WHERE type = 'free')`)
			defer stick(tb)()
			ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
			defer done()
			for _, want := range []int{2, 1, 0} {
				rescued, err := tb.Rescue(ctx, 2)
				if len(rescued) != want {
					t.Fatalf("%d were rescued, want %d: %v", len(rescued), want, err)
				}
				for _, r := range rescued {
					if r.Type != "free" || tb.status(r.ID) != "PENDING" {
						t.Errorf("job %d of type %s is %s", r.ID, r.Type, tb.status(r.ID))
					}
				}
				raised := 0
				if name == "a trigger raises" {
					raised = 10 // of 12
				}
				if err == nil && raised > 0 || err != nil && strings.Count(err.Error(), "not this one") != raised {
					t.Errorf("the errors of %d jobs are not these: %v", raised, err)
				}
			}
		})
	}
}
