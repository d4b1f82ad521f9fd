package queue_test

import (
	"testing"
	"time"
)

// Its deferred triggers run early: the first job is handed over while the transaction goes on.
func TestWhatATransactionAddsAfterItsJobWasHandedOverIsNotLost(t *testing.T) {
	tb := newHandedTable(t)
	tb.exec(`BEGIN; SET CONSTRAINTS ALL IMMEDIATE;
		SELECT notifyworker.enqueue_price_refresh('c', '["p1"]'); SELECT notifyworker.enqueue_price_refresh('c', '["p2"]');
		SELECT notifyworker.enqueue_price_refresh('d', (SELECT jsonb_agg(n) FROM generate_series(1, 25000) n));
		SELECT notifyworker.enqueue_price_refresh('d', '["p"]'); COMMIT`)
	if n := value[int](tb, "SELECT count(*)::int FROM notifyworker.jobs WHERE status = 'RUNNING'"); n != 1 {
		t.Errorf("%d jobs were handed over, want the first", n)
	}
	if n := value[int](tb, "SELECT notifyworker.sweep()::int"); n != 0 {
		t.Errorf("%d additions belong to no waiting job", n)
	}
	if s := value[string](tb, "SELECT string_agg(catalog_id || ' ' || product_count, ', ' ORDER BY id) FROM notifyworker.jobs WHERE status = 'PENDING'"); s != "c 1, d 10000" {
		t.Errorf("there wait: %s", s)
	}
}

// A user's trigger refuses what a commit would hand over. One job a transaction is tried, not each.
func TestACommitTriesToHandOverOneJob(t *testing.T) {
	tb := newHandedTable(t)
	tb.exec(`CREATE SEQUENCE tries; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM nextval('public.tries'); RAISE EXCEPTION 'not on Mondays'; END $$;
		CREATE TRIGGER refuse AFTER UPDATE OF status ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`)
	began := time.Now()
	tb.exec("INSERT INTO notifyworker.jobs (type) SELECT 't' FROM generate_series(1, 2000)")
	t.Logf("%v", time.Since(began))
	if n := value[int](tb, "SELECT last_value::int FROM tries"); n != 1 {
		t.Errorf("%d tries", n)
	}
	if n := value[int](tb, "SELECT count(*)::int FROM notifyworker.jobs WHERE status = 'PENDING'"); n != 2000 {
		t.Errorf("%d jobs wait, want 2000", n)
	}
}
