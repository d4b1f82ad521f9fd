package queue_test

import (
	"fmt"
	"strings"
	"testing"

	"notifyworker/internal/queue"
)

func TestAJobThatCannotBeHandedOverIsEnqueuedAndAnnouncedAsUsual(t *testing.T) {
	const (
		aJob = `SELECT notifyworker.enqueue_job('t')`
		trig = `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.status = 'RUNNING' THEN %s; END IF; RETURN NEW; END $$;
			CREATE TRIGGER refuse BEFORE UPDATE ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION public.refuse()`
	)
	for name, c := range map[string]struct {
		before, enqueue string
		gone            bool // enqueue leaves no job that waits
	}{
		"nobody has hands":       {`UPDATE notifyworker.workers SET hands = NULL`, aJob, false},
		"the worker is awake":    {`UPDATE notifyworker.workers SET wants_notify = false; INSERT INTO notifyworker.workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 2, 'v', 1, true)`, aJob, false},
		"the worker is silent":   {`UPDATE notifyworker.workers SET last_beat = clock_timestamp() - interval '16 s'`, aJob, false},
		"its session is another": {`UPDATE notifyworker.workers SET hands = hands || '{"key": 5}'`, aJob, false},
		"not due":                {``, `SELECT notifyworker.enqueue_job('t', delay => '1 h')`, false},
		"due later by an UPDATE": {``, `BEGIN; SELECT notifyworker.enqueue_job('t'); UPDATE notifyworker.jobs SET run_after = now() + interval '1 h'; COMMIT`, false},
		"repeatable read":        {``, `BEGIN ISOLATION LEVEL REPEATABLE READ; ` + aJob + `; COMMIT`, false},
		"serializable":           {``, `BEGIN ISOLATION LEVEL SERIALIZABLE; ` + aJob + `; COMMIT`, false},
		"joined already":         {``, `BEGIN; SELECT notifyworker.enqueue_price_refresh('c', '["a"]'); SELECT notifyworker.enqueue_price_refresh('c', '["b"]'); COMMIT`, false},
		"additions wait for it":  {`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notifyworker.enqueue_price_refresh('c', '["a"]'); COMMIT`, `SELECT notifyworker.enqueue_price_refresh('c', '["b"]')`, false},
		"an id twice":            {``, `INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', '{"catalogId": "c", "productIds": ["a", "b", "a"]}')`, false},
		"more ids than allowed":  {``, `SELECT notifyworker.enqueue_price_refresh('c', '["a", "b", "c", "d"]')`, false},
		"a trigger raises":       {fmt.Sprintf(trig, `RAISE EXCEPTION 'no'`), aJob, false},
		"a trigger may raise later": {`CREATE FUNCTION public.later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.status = 'RUNNING' THEN RAISE EXCEPTION 'no'; END IF; RETURN NULL; END $$;
			CREATE CONSTRAINT TRIGGER later AFTER UPDATE ON notifyworker.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.later()`, aJob, false},
		"a trigger suppresses": {fmt.Sprintf(trig, `RETURN NULL`), aJob, false},
		"cancelled by then":    {``, `BEGIN; ` + aJob + `; SELECT notifyworker.cancel(id) FROM notifyworker.jobs; COMMIT`, true},
		"deleted by then":      {``, `BEGIN; ` + aJob + `; DELETE FROM notifyworker.jobs; COMMIT`, true},
		"running by then":      {``, `BEGIN; ` + aJob + `; SELECT notifyworker.reserve(1, '` + workerB + `', 60000); COMMIT`, true},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t, func(c *queue.Config) { c.MaxIDs = 3 })
			tb.exec(c.before)
			ear := tb.listen()
			tb.exec(c.enqueue)
			if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE worker_id = $1`, workerA); n != 0 {
				t.Errorf("%d jobs were handed over", n)
			}
			if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING' AND attempts = 0`); (n == 1) == c.gone {
				t.Errorf("%d jobs wait", n)
			}
			if got := ear.heard(); len(got) != 1 || !strings.HasPrefix(got[0], `{"type":"`) {
				t.Errorf("heard %q, want one announcement", got)
			}
		})
	}
}

// What a commit looks through is bounded, however many ids a worker takes at once.
func TestACommitHandsOverNoJobOfMoreThanAThousandIDs(t *testing.T) {
	tb := newHandedTable(t)
	for n, want := range map[int]string{1000: "RUNNING", 1001: "PENDING"} {
		const enqueue = `SELECT job_id FROM notifyworker.enqueue_price_refresh($1, (SELECT jsonb_agg(g) FROM generate_series(1, $2::integer) g))`
		if got := tb.status(value[int64](tb, enqueue, fmt.Sprint(n), n)); got != want {
			t.Errorf("the job with %d ids is %s, want %s", n, got, want)
		}
	}
}

func TestAJobThatComesBackIsNotHandedOver(t *testing.T) {
	for name, back := range map[string]string{
		"requeued":    `SELECT notifyworker.requeue(id, 'released', lock_token) FROM notifyworker.jobs`,
		"replayed":    `SELECT notifyworker.cancel(id) FROM notifyworker.jobs; SELECT notifyworker.replay(id) FROM notifyworker.jobs`,
		"by hand":     `UPDATE notifyworker.jobs SET status = 'PENDING', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL`,
		"due at once": `UPDATE notifyworker.jobs SET status = 'PENDING', lock_token = NULL, lease_expires_at = NULL, worker_id = NULL, run_after = now() + interval '1 h'; UPDATE notifyworker.jobs SET run_after = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t)
			tb.take(tb.handed("t"))
			ear := tb.listen()
			for _, sql := range strings.SplitAfter(back, ";") {
				tb.exec(sql) // each in a transaction of its own
			}
			if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING'`); n != 1 {
				t.Errorf("%d jobs wait, want 1", n)
			}
			for _, p := range ear.heard() {
				if strings.HasPrefix(p, `{"worker":`) {
					t.Errorf("heard %s", p)
				}
			}
		})
	}
}

func TestASuccessorIsNotHandedOver(t *testing.T) {
	for name, enqueue := range map[string]string{
		"of a job with too many ids": `SELECT notifyworker.enqueue_price_refresh('c', '["a", "b", "c", "d"]')`,
		// It seems to have nothing to do yet, but additions under way count on it.
		"of a job that somebody joins": `INSERT INTO notifyworker.jobs (type, successor, config) VALUES ('PRICE_REFRESH', true, '{"catalogId": "c", "productIds": []}')`,
	} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t, func(c *queue.Config) { c.MaxIDs = 3 })
			tb.exec(enqueue)
			if value[bool](tb, `SELECT NOT successor FROM notifyworker.jobs`) {
				tb.one()
			}
			if n := value[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'PENDING' AND successor`); n != 1 {
				t.Errorf("%d successors wait, want 1", n)
			}
		})
	}
}
