package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// These tests speak to the engine's SQL as two processes do, each step where it hurts.

// admitted is a refresh that was admitted for workerA; no engine knows of it.
func (b bench) admitted(catalog, ids string) (id int64, token string) {
	b.t.Helper()
	j := b.job(catalog, ids)
	must(b.t, b.pool.QueryRow(context.Background(), `SELECT refresh_id, refresh_token::text FROM notifyworker.admit_refresh($1, $2, $3, 3600000)`,
		j.ID, j.Token, workerA).Scan(&id, &token))
	return id, token
}

// impatient is a session that gives up waiting for a lock, where none should be waited for.
func (b bench) impatient() *pgx.Conn {
	b.t.Helper()
	c := b.db.Conn(b.t)
	_, err := c.Exec(context.Background(), `SET lock_timeout = '10s'`)
	must(b.t, err)
	return c
}

// begin opens a transaction and says something in it.
func (b bench) begin(sql string, args ...any) pgx.Tx {
	b.t.Helper()
	tx, err := b.db.Conn(b.t).Begin(context.Background())
	must(b.t, err)
	_, err = tx.Exec(context.Background(), sql, args...)
	must(b.t, err)
	return tx
}

// forTheHolder are the calls that only the holder of a refresh's token may make, over $1 the refresh and $2 the token; and
// what they say to anybody else, as text, or the SQLSTATE that they raise.
var forTheHolder = []struct{ sql, says string }{
	{`SELECT notifyworker.progress_refresh($1, $2, 60000, 1, 1)::text`, "false"},
	{`SELECT outcome FROM notifyworker.release_refresh($1, $2)`, "lost"},
	{`SELECT (x.extended = '{}' AND x.lost = ARRAY[$1::bigint])::text FROM notifyworker.extend_refreshes(ARRAY[$1::bigint], ARRAY[$2::uuid], 7200000) x`, "true"},
	{`SELECT notifyworker.begin_refresh($1, $2, 3)::text`, "false"},
	{`SELECT notifyworker.hand_back_refreshes(ARRAY[$1::bigint], ARRAY[$2::uuid])::text`, "0"},
	{`SELECT coalesce(notifyworker.list_refresh($1, $2, 60000, '["p7"]')::text, 'lost')`, "lost"},
	{`SELECT recomputed::text FROM notifyworker.recompute_chunk($1, $2, 60000, 'SELECT 1', 'count', '["p1"]', NULL, 1, false, NULL, 'c')`, "NW410"},
	{`SELECT recomputed::text FROM notifyworker.recompute_chunk($1, $2, 60000, 'SELECT 1', 'count', '["p1"]', NULL, NULL, false, NULL, 'c')`, "NW410"},
	{`SELECT recomputed::text FROM notifyworker.recompute_chunk($1, $2, 60000, 'SELECT 1', 'count', '["p1"]', NULL, NULL, true, NULL, 'c')`, "NW410"},
}

// said is what a statement returned, or the SQLSTATE that it raised.
func said(c pgtest.Querier, sql string, args ...any) string {
	var s string
	err := c.QueryRow(context.Background(), sql, args...).Scan(&s)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	} else if err != nil {
		return err.Error()
	}
	return s
}

// blocked says it in a session of its own, which must come to wait for a lock; what it says in the end comes from the channel.
func (b bench) blocked(sql string, args ...any) <-chan string {
	b.t.Helper()
	c, over := b.db.Conn(b.t), make(chan string, 1)
	go func() { over <- said(c, sql, args...) }()
	pgtest.WaitBlocked(b.t, b.pool, c.PgConn().PID())
	return over
}

func TestOnlyTheHolderOfARefreshWrites(t *testing.T) {
	b := newBench(t)
	partial, old := b.admitted("c", `["p1", "p2"]`)
	full := b.fullJob("d")
	b.exec(`SELECT notifyworker.admit_refresh($1, $2, $3, 3600000)`, full.ID, full.Token, workerA)
	const all = `SELECT string_agg(r::text, ';' ORDER BY id) || (SELECT count(*) FROM notifyworker.jobs) FROM notifyworker.refreshes r`
	refuse := func(who, token string, ids ...int64) {
		t.Helper()
		before := value[string](b, all)
		for _, c := range forTheHolder {
			for _, id := range ids {
				if got := said(b.pool, c.sql, id, token); got != c.says {
					t.Errorf("%s, %s: got %s, want %s", who, c.sql, got, c.says)
				}
			}
		}
		if after := value[string](b, all); after != before {
			t.Errorf("%s changed\nfrom %s\nto   %s", who, before, after)
		}
	}
	refuse("a stranger", workerB, partial, value[int64](b, `SELECT id FROM notifyworker.refreshes WHERE scope = 'FULL'`))
	b.exec(`SELECT notifyworker.hand_back_refreshes(ARRAY[$1::bigint], ARRAY[$2::uuid])`, partial, old)
	refuse("who has handed it back", old, partial)
	taken := value[string](b, `SELECT lock_token::text FROM notifyworker.take_over_refreshes($1, 3600000, 1)`, workerB)
	refuse("whose refresh was taken over", old, partial)
	if got := said(b.pool, `SELECT outcome FROM notifyworker.release_refresh($1, $2)`, partial, taken); got != "done" {
		t.Fatalf("the release by its holder: %s", got)
	}
	refuse("who releases it again", taken, partial)
}

// The lease has ended, and another is just taking over: who held it waits for that one's commit, and has lost the refresh.
func TestWhoMeetsATakeoverHasLost(t *testing.T) {
	for _, c := range forTheHolder {
		if strings.Contains(c.sql, "extend_refreshes") || strings.Contains(c.sql, "hand_back") {
			continue // these pass over a locked row
		}
		b := newBench(t)
		var id int64
		var token string
		j, listed := b.job("c", `["p1"]`), "t"
		if strings.Contains(c.sql, "list_refresh") {
			j, listed = b.fullJob("d"), "f"
		}
		must(t, b.pool.QueryRow(context.Background(), `SELECT refresh_id, refresh_token::text FROM notifyworker.admit_refresh($1, $2, $3, 1)`, j.ID, j.Token, workerA).Scan(&id, &token))
		expire(b)
		takeover := b.begin(`SELECT notifyworker.take_over_refreshes($1, 3600000, 1)`, workerB)
		over := b.blocked(c.sql, id, token)
		must(t, takeover.Commit(context.Background()))
		if got := <-over; got != c.says {
			t.Errorf("%s: got %s, want %s", c.sql, got, c.says)
		}
		if s := value[string](b, `SELECT format('%s, %s listed, %s', status, listed, worker_id) FROM notifyworker.refreshes`); s != "ACTIVE, "+listed+" listed, "+workerB {
			t.Errorf("%s: the refresh is %s", c.sql, s)
		}
	}
}

// An article function may take its time. Meanwhile the job is not rescued, or its ids would run twice.
func TestAnAdmissionHoldsItsJob(t *testing.T) {
	b := newBench(t)
	b.exec(`CREATE SCHEMA shop`)
	b.exec(`CREATE FUNCTION shop.article(id text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN id; END $$`)
	j := b.job("c", `["p1"]`)
	gate := b.begin(`SELECT pg_advisory_xact_lock(1)`)
	admitted := b.blocked(`SELECT outcome FROM notifyworker.admit_refresh($1, $2, $3, 60000, 'shop.article')`, j.ID, j.Token, workerA)
	if got := said(b.pool, `SELECT outcome FROM notifyworker.requeue($1, 'released', $2)`, j.ID, j.Token); got != "busy" {
		t.Errorf("a requeue of a job that is being admitted: %s", got)
	}
	must(t, gate.Commit(context.Background()))
	if got := <-admitted; got != "accepted" {
		t.Errorf("the admission: %s", got)
	}
}

// Two processes are admitted to a catalog at the same moment: the second waits for the first, and sees it then. Who is
// refused because of something else does not wait.
func TestTwoAdmissionsAtTheSameMoment(t *testing.T) {
	b := newBench(t)
	b.admitted("c", `["p9"]`)
	first, second, refused := b.job("c", `["p1"]`), b.job("c", `["p1", "p2"]`), b.job("c", `["p9"]`)
	const admit = `SELECT outcome FROM notifyworker.admit_refresh($1, $2, $3, 60000)`
	open := b.begin(admit, first.ID, first.Token, workerA)
	waiting := b.blocked(admit, second.ID, second.Token, workerB)
	if got := said(b.impatient(), admit, refused.ID, refused.Token, workerB); got != "product_in_flight" {
		t.Errorf("who is refused anyway: %s", got)
	}
	must(t, open.Commit(context.Background()))
	if got := <-waiting; got != "product_in_flight" {
		t.Errorf("the second: %s", got)
	}
}

func TestTenantsOfOneCatalogNameExcludeNobody(t *testing.T) {
	b := newBench(t)
	const other = "11111111-1111-4111-8111-111111111111"
	b.exec(`INSERT INTO notifyworker.tenants VALUES ($1, 'other')`, other)
	b.admitted("c", `["p1"]`)
	b.exec(`SELECT notifyworker.enqueue_price_refresh('c', '["p1"]', tenant_id => $1)`, other)
	j := b.reserve()
	if got := said(b.pool, `SELECT outcome FROM notifyworker.admit_refresh($1, $2, $3, 60000)`, j.ID, j.Token, workerA); got != "accepted" {
		t.Errorf("another tenant's: %s", got)
	}
}

func TestATakeoverTakesWhatHasEndedAndNobodyHasLocked(t *testing.T) {
	b := newBench(t)
	var ids []int64
	for _, c := range []string{"a", "b", "lives"} {
		id, _ := b.admitted(c, `["p1"]`)
		ids = append(ids, id)
	}
	b.exec(`UPDATE notifyworker.refreshes SET lease_expires_at = clock_timestamp() - interval '1 s' * (10 - id) WHERE catalog_id <> 'lives'`)
	const take = `SELECT coalesce(array_agg(id), '{}') FROM notifyworker.take_over_refreshes($1, 60000, $2)`
	var got []int64
	first := b.begin(`SELECT`)
	must(t, first.QueryRow(context.Background(), take, workerB, 1).Scan(&got))
	if len(got) != 1 || got[0] != ids[0] {
		t.Errorf("took %v, want the one whose lease ended first of %v", got, ids)
	}
	must(t, b.impatient().QueryRow(context.Background(), take, workerA, 10).Scan(&got))
	if len(got) != 1 || got[0] != ids[1] {
		t.Errorf("another took %v of %v", got, ids)
	}
	must(t, first.Commit(context.Background()))
}

// The answer to a progress may get lost, and then it is said again.
func TestAProgressThatIsSaidAgainCountsOnce(t *testing.T) {
	b := newBench(t)
	id, token := b.admitted("c", `["p1", "p2", "p3"]`)
	b.exec(`UPDATE notifyworker.refreshes SET attempts = 3, lease_expires_at = now() WHERE id = $1`, id)
	for range 2 {
		if !value[bool](b, `SELECT notifyworker.progress_refresh($1, $2, 3600000, 2, 2, '[{"id": "p2", "error": "no"}]')`, id, token) {
			t.Error("the holder's progress is lost")
		}
	}
	if got := value[string](b, `SELECT format('%s done, %s recomputed, %s failed, %s takeovers, %s', done_count, recomputed, failed_count, attempts,
		lease_expires_at > now() + interval '30 minutes') FROM notifyworker.refreshes WHERE id = $1`, id); got != "2 done, 2 recomputed, 1 failed, 0 takeovers, t" {
		t.Errorf("got %s", got)
	}
	// Also when it comes with the effects of a SQL function: these are rolled back the second time.
	b.exec(`CREATE TABLE runs (n int)`)
	b.exec(`CREATE FUNCTION run() RETURNS int LANGUAGE sql AS 'INSERT INTO runs VALUES (1) RETURNING n'`)
	const chunk = `SELECT recomputed::text FROM notifyworker.recompute_chunk($1, $2, 60000, 'SELECT run()', 'count', '["p3"]', NULL, 3, false, NULL, 'c')`
	for _, want := range []string{"1", "NW411"} {
		if got := said(b.pool, chunk, id, token); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n := value[int](b, `SELECT count(*) FROM runs`); n != 1 {
		t.Errorf("the chunk was written %d times", n)
	}
}

// Who asks for the list again, because the answer got lost, has lost the refresh: its ids stay as they were written.
func TestAListIsWrittenOnce(t *testing.T) {
	b := newBench(t)
	j := b.fullJob("c")
	var id int64
	var token string
	must(t, b.pool.QueryRow(context.Background(), `SELECT refresh_id, refresh_token::text FROM notifyworker.admit_refresh($1, $2, $3, 3600000)`,
		j.ID, j.Token, workerA).Scan(&id, &token))
	for _, c := range []struct{ ids, says string }{{`["p1"]`, `["p1"]`}, {`["p1"]`, "listed"}, {`["p2"]`, "listed"}} {
		if got := said(b.pool, `SELECT coalesce(notifyworker.list_refresh($1, $2, 3600000, $3::text::jsonb)::text, 'listed')`, id, token, c.ids); got != c.says {
			t.Errorf("%s: got %s, want %s", c.ids, got, c.says)
		}
	}
}

// A part of a chunk writes no progress. From its look at the token to its commit nobody takes the refresh over all the same.
func TestAPartOfAChunkHoldsTheRefresh(t *testing.T) {
	b := newBench(t)
	id, token := b.admitted("c", `["p1", "p2"]`)
	expire(b)
	part := b.begin(`SELECT notifyworker.recompute_chunk($1, $2, 60000, 'SELECT 1', 'count', '["p1"]', NULL, NULL, false, NULL, 'c')`, id, token)
	if n := value[int](b, `SELECT count(*) FROM notifyworker.take_over_refreshes($1, 60000, 1)`, workerB); n != 0 {
		t.Error("it was taken over while a part of it was being written")
	}
	must(t, part.Commit(context.Background()))
}
