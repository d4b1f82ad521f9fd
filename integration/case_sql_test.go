package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Cases of the field: plans, isolation levels, values, schemas.

func TestB39NoPlanMakesAReservationTakeMoreThanItAsksFor(t *testing.T) {
	for _, careful := range []bool{false, true} {
		tb := newTable(t, queue.Config{})
		// Statistics of an empty table, and every plan but a nested loop forbidden.
		tb.exec(`ANALYZE notifyworker.jobs; ANALYZE notifyworker.job_additions`)
		tb.exec(`INSERT INTO notifyworker.jobs (type, config) SELECT 't', '{}' FROM generate_series(1, 3000);
			INSERT INTO notifyworker.jobs (type, config) SELECT 'PRICE_REFRESH', jsonb_build_object('catalogId', 'c' || g, 'productIds', '["p"]'::jsonb) FROM generate_series(1, 500) g`)
		tx := tb.begin("REPEATABLE READ")
		tb.run(tx, `SELECT notifyworker.enqueue_price_refresh('m' || g, '["p"]') FROM generate_series(1, 50) g`)
		tb.commit(tx)
		c := tb.db.Conn(t)
		for _, off := range []string{"hashjoin", "mergejoin", "hashagg", "sort", "material", "bitmapscan", "memoize"} {
			tb.run(c, "SET enable_"+off+" = off")
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			tb.run(c, "SET plan_cache_mode = "+mode)
			for _, scan := range []string{"on", "off"} {
				tb.run(c, "SET enable_indexscan = "+scan)
				tb.run(c, "SET enable_indexonlyscan = "+scan)
				before := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'RUNNING'`)
				tb.run(c, `SELECT notifyworker.reserve(10, gen_random_uuid(), 60000, p_careful => $1)`, careful)
				if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'RUNNING'`) - before; n != 10 {
					t.Errorf("%s, index scans %s, careful %v: %d jobs were taken, 10 were asked for", mode, scan, careful, n)
				}
			}
		}
		tb.exec(`DELETE FROM notifyworker.jobs WHERE status = 'PENDING'`)
		tb.run(c, `SELECT notifyworker.reserve(10, gen_random_uuid(), 60000)`)
		if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs WHERE status = 'RUNNING' AND catalog_id LIKE 'm%'`); n != 10 {
			t.Errorf("%d jobs were made of marked additions, 10 were asked for", n)
		}
	}
}

func TestB39NoPlanMakesAPurgeOrARescueTakeMoreThanItAsksFor(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`ANALYZE notifyworker.jobs`)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, finished_at) SELECT 't', 'COMPLETED', now() - interval '9 days' FROM generate_series(1, 3000)`)
	tb.exec(`INSERT INTO notifyworker.jobs (type, status, lock_token, lease_expires_at, started_at) SELECT 't', 'RUNNING', gen_random_uuid(), now(), now() FROM generate_series(1, 300)`)
	c := tb.db.Conn(t)
	for _, off := range []string{"hashjoin", "mergejoin", "hashagg", "sort", "material"} {
		tb.run(c, "SET enable_"+off+" = off")
	}
	st, err := queue.New(queue.Config{DB: c, WorkerID: workerID})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := st.Purge(t.Context(), queue.Retention{Completed: time.Hour}, 10); err != nil || p.Jobs != 10 {
		t.Errorf("purged %+v, %v", p, err)
	}
	if r, err := st.Rescue(t.Context(), 10); err != nil || len(r) != 10 {
		t.Errorf("rescued %d, %v", len(r), err)
	}
}

func TestB42CatalogNamesThatNoIndexHoldsAreRefusedWithAHint(t *testing.T) {
	tb := newTable(t, queue.Config{})
	long := strings.Repeat("ab9f", 750) // 3,000 bytes; random enough below that no compression hides it
	random := one[string](tb, `SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 94)`)
	configs := map[string]string{
		"long": `{"catalogId": "` + long + `", "productIds": []}`, "long and random": `{"catalogId": "` + random + `", "productIds": []}`,
		"empty": `{"catalogId": "", "productIds": []}`, "null": `{"catalogId": null, "productIds": []}`, "missing": `{"productIds": []}`,
		"a number": `{"catalogId": 7, "productIds": []}`, "an object": `{"catalogId": {}, "productIds": []}`,
	}
	for name, config := range configs {
		for door, sql := range map[string]string{
			"enqueue job":  `SELECT notifyworker.enqueue_job('PRICE_REFRESH', $1::jsonb)`,
			"enqueue many": `SELECT notifyworker.enqueue_price_refreshes(jsonb_build_array($1::jsonb))`,
			"raw INSERT":   `INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', $1::jsonb)`,
		} {
			_, err := tb.pool.Exec(t.Context(), sql, config)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "22023" || pg.Hint == "" {
				t.Errorf("%s, catalogId %s: %v", door, name, err)
			}
		}
	}
	for _, c := range []any{nil, "", long} {
		_, err := tb.pool.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh($1, '["p"]')`, c)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || pg.Hint == "" {
			t.Errorf("enqueue of %.20v: %v", c, err)
		}
	}
	if n := one[int](tb, `SELECT count(*) FROM notifyworker.jobs`); n != 0 {
		t.Errorf("%d jobs were made", n)
	}
}

func TestB42TheLongestCatalogNameWorksEverywhere(t *testing.T) {
	tb := newTable(t, queue.Config{})
	longest := one[string](tb, `SELECT left(string_agg(md5(random()::text), ''), 1024) FROM generate_series(1, 33)`)
	for _, c := range []string{longest, strings.Repeat("é", 512), `a"b'c\d`, "Ä Ö\tß", "c"} {
		tb.enqueue(c, `["p1"]`)
		tb.enqueue(c, `["p2"]`)
		j := tb.reserveOne()
		if j.CatalogID != c || j.ProductCount != 2 {
			t.Errorf("%.20s: got %.20s with %d ids", c, j.CatalogID, j.ProductCount)
		}
		tb.enqueueRR(c, `["p3"]`)
		if out := tb.requeue(j, queue.CauseRefused); out.Verdict != queue.Requeued {
			t.Errorf("%.20s: %+v", c, out)
		}
		if j = tb.reserveOne(); j.ProductCount != 3 {
			t.Errorf("%.20s: %d ids", c, j.ProductCount)
		}
		tb.complete(j)
	}
}

func TestB43AHigherDefaultIsolationLevelChangesNothing(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		tb := newTable(t, queue.Config{})
		tb.exec(`ALTER DATABASE ` + tb.db.Name + ` SET default_transaction_isolation = '` + level + `'`)
		// A worker's own sessions say what they need, whatever the default is; a client's take the default.
		workers, err := queue.OpenPool(t.Context(), tb.db.URL, "b43", 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(workers.Close)
		st, err := queue.New(queue.Config{DB: workers, WorkerID: workerID})
		if err != nil {
			t.Fatal(err)
		}
		clients := tb.db.Pool(t)
		for _, ids := range []string{`["p1"]`, `["p2"]`} {
			if _, err := clients.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh('c', $1::jsonb)`, ids); err != nil {
				t.Errorf("%s: enqueue: %v", level, err)
			}
		}
		r, err := st.Reserve(t.Context(), 10)
		if err != nil || len(r.Jobs) != 1 || r.Jobs[0].ProductCount != 2 {
			t.Fatalf("%s: reserved %+v, %v", level, r.Jobs, err)
		}
		if _, err := clients.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh('c', '["p3"]')`); err != nil {
			t.Errorf("%s: enqueue: %v", level, err)
		}
		j := r.Jobs[0]
		if out, err := st.Requeue(t.Context(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CausePermanent}); err != nil || out.Verdict != queue.Dead {
			t.Errorf("%s: %+v, %v", level, out, err)
		}
		if _, err := clients.Exec(t.Context(), `SELECT notifyworker.replay($1)`, j.ID); err != nil {
			t.Errorf("%s: replay: %v", level, err)
		}
		r, err = st.Reserve(t.Context(), 10)
		if err != nil || len(r.Jobs) != 1 || r.Jobs[0].ProductCount != 3 {
			t.Errorf("%s: reserved %+v, %v", level, r.Jobs, err)
		}
		if id := tb.into(j.ID); len(r.Jobs) == 1 && id != r.Jobs[0].ID {
			t.Errorf("%s: the replayed job says that it was merged into %d", level, id)
		}
	}
}

func TestB43AReservationAtAHigherLevelIsRefusedWithAHint(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.enqueue("c", `["p"]`)
	c := tb.begin("REPEATABLE READ")
	_, err := c.Exec(context.Background(), `SELECT notifyworker.reserve(1, gen_random_uuid(), 60000)`)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "25001" || pg.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func TestB47BigNumbersStayExact(t *testing.T) {
	tb := newTable(t, queue.Config{})
	tb.exec(`ALTER TABLE notifyworker.jobs ALTER id RESTART WITH 3000000000`)
	tb.exec(`ALTER TABLE notifyworker.job_additions ALTER id RESTART WITH 3000000000`)
	a := tb.enqueue("c", `[9007199254740993, 1e400]`)
	j := tb.reserveOne()
	told := tb.enqueueRR("c", `[9007199254740992, 18446744073709551616, -0.000000000000000000000000000001]`)
	out := tb.requeue(j, queue.CauseRefused)
	if a != 3000000000 || out.Verdict == queue.Gone {
		t.Fatalf("job %d: %+v", a, out)
	}
	taker := tb.reserveOne()
	want := `[9007199254740993, 1` + strings.Repeat("0", 400) + `, 9007199254740992, 18446744073709551616, -0.000000000000000000000000000001]`
	if got := tb.ids(taker.ID); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := string(taker.Config); !strings.Contains(s, want) {
		t.Errorf("the worker got %s", s)
	}
	if id := tb.into(told); id != taker.ID {
		t.Errorf("the told id says %d, want %d", id, taker.ID)
	}
}

func TestB50ASchemaOfAnyNameWorksForARoleWithoutASearchPath(t *testing.T) {
	const schema = "Prix-2"
	tb := newTable(t, queue.Config{}, pgtest.Schema(schema))
	tb.exec(`ALTER DATABASE ` + tb.db.Name + ` SET search_path = ''`)
	pool := tb.db.Pool(t)
	st, err := queue.New(queue.Config{DB: pool, WorkerID: workerID, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	ear := tb.db.Conn(t)
	if _, err := ear.Exec(t.Context(), "LISTEN "+pgx.Identifier{schema}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	err = st.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 1})
	if err == nil {
		_, err = st.WantNotify(t.Context(), true, false)
	}
	if ok, e := st.Barrier(t.Context()); err != nil || e != nil || !ok {
		t.Fatalf("%v, %v, %v", ok, err, e)
	}
	if _, err := pool.Exec(t.Context(), `SELECT "Prix-2".enqueue_price_refresh('c', '["p1"]')`); err != nil {
		t.Fatal(err)
	}
	if n, err := ear.WaitForNotification(t.Context()); err != nil || n.Channel != schema {
		t.Fatalf("%+v, %v", n, err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO "Prix-2".jobs (type) VALUES ('t')`); err != nil {
		t.Error(err)
	}
	r, err := st.Reserve(t.Context(), 10)
	if err != nil || len(r.Jobs) != 2 {
		t.Fatalf("reserved %+v, %v", r.Jobs, err)
	}
	// A marked addition takes its job id from the sequence, which is looked up by name.
	tx := tb.begin("REPEATABLE READ")
	tb.run(tx, `SELECT "Prix-2".enqueue_price_refresh('c', '["p2"]')`)
	tb.commit(tx)
	for _, j := range r.Jobs {
		if out, err := st.Requeue(t.Context(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused}); err != nil || out.Verdict != queue.Requeued {
			t.Errorf("%+v, %v", out, err)
		}
	}
	if r, err = st.Reserve(t.Context(), 10); err != nil || len(r.Jobs) != 2 {
		t.Errorf("reserved %+v, %v", r.Jobs, err)
	}
	if s, err := st.Sweep(t.Context()); err != nil || s.Repaired != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestB50TwoSchemasOfOneDatabaseDoNotHearEachOther(t *testing.T) {
	tb := newTable(t, queue.Config{})
	if _, err := migrations.Up(t.Context(), tb.db.Conn(t), migrations.Options{Schema: "two", Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
	ear := tb.db.Conn(t)
	tb.run(ear, `LISTEN notifyworker; LISTEN two; LISTEN marker`)
	for _, schema := range []string{"notifyworker", "two"} {
		tb.exec(`INSERT INTO ` + schema + `.workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 1, 'v', 1, true)`)
	}
	tb.exec(`SELECT two.enqueue_price_refresh('c', '["p"]')`)
	tb.exec(`NOTIFY marker`)
	for _, want := range []string{"two", "marker"} {
		if n, err := ear.WaitForNotification(t.Context()); err != nil || n.Channel != want {
			t.Fatalf("heard %+v, %v, want %s", n, err, want)
		}
	}
	if jobs := tb.reserve(10); len(jobs) != 0 {
		t.Errorf("a worker of one schema got %d jobs of the other", len(jobs))
	}
	// The barrier is a schema's own: a commit that is under way in one holds up no worker of the other.
	tx := tb.begin("READ COMMITTED")
	tb.run(tx, `SET CONSTRAINTS ALL IMMEDIATE`)
	tb.run(tx, `SELECT two.enqueue_job('t')`)
	if ok, err := tb.Barrier(t.Context()); err != nil || !ok {
		t.Errorf("the barrier: %v, %v", ok, err)
	}
	tb.commit(tx)
}
