package engine_test

import (
	"context"
	"testing"
)

// A migration locks the tables in their order, jobs first. Who releases a refresh has not locked a later one while it waits for
// an earlier one.
func TestAReleaseBesideAMigrationDoesNotDeadlock(t *testing.T) {
	for _, sql := range []string{
		`SELECT outcome FROM notifyworker.release_refresh($1, $2)`,
		`SELECT recomputed::text FROM notifyworker.recompute_chunk($1, $2, 60000, 'SELECT 1', 'count', '["p1"]', NULL, 1, true, NULL, 'c')`,
	} {
		b := newBench(t)
		id, token := b.admitted("c", `["p1"]`)
		migration := b.begin(`LOCK TABLE notifyworker.jobs IN ACCESS EXCLUSIVE MODE`)
		ended := b.blocked(sql, id, token)
		_, err := migration.Exec(context.Background(), `LOCK TABLE notifyworker.job_additions, notifyworker.refreshes IN ACCESS EXCLUSIVE MODE`)
		if err != nil {
			t.Errorf("the migration beside %s: %v", sql, err)
		}
		_ = migration.Rollback(context.Background())
		if got := <-ended; got != "done" && got != "1" {
			t.Errorf("%s: %s", sql, got)
		}
	}
}

// refusedIDs puts ids into a catalog that were refused a moment ago, and wait for an hour.
func (b bench) refusedIDs(catalog string, marked bool) {
	b.t.Helper()
	b.exec(`INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids, from_job_id, attempts, run_after, marked)
		VALUES ('00000000-0000-0000-0000-000000000000', $1, '["p1"]', 1, 3, now() + interval '1 h', $2)`, catalog, marked)
}

func TestAReleaseWakesRefusedIDsThatWaitForNoJob(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	ear := b.db.Conn(t)
	b.refusedIDs("c", true)
	_, err := ear.Exec(ctx, `LISTEN notifyworker; INSERT INTO notifyworker.workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 1, 'v', 1, true)`)
	must(t, err)
	if !value[bool](b, `SELECT notifyworker.wake_catalog('00000000-0000-0000-0000-000000000000', 'c')`) {
		t.Error("nothing was woken")
	}
	if _, err := ear.WaitForNotification(ctx); err != nil {
		t.Errorf("nobody was told: %v", err)
	}
	if j := b.reserve(); j.ProductCount != 1 {
		t.Errorf("reserved %+v", j)
	}
}

func TestAReleaseWaitsForNoAddition(t *testing.T) {
	b := newBench(t)
	b.refusedIDs("c", true)
	psql := b.begin(`SELECT FROM notifyworker.job_additions FOR UPDATE`)
	var woken bool
	must(t, b.impatient().QueryRow(context.Background(), `SELECT notifyworker.wake_catalog('00000000-0000-0000-0000-000000000000', 'c')`).Scan(&woken))
	if woken {
		t.Error("an addition was woken that somebody has locked")
	}
	must(t, psql.Rollback(context.Background()))
}

// Who was refused waits for its back-off at most: a person who has the refresh's row locked holds up a refusal for a moment only.
func TestARefusalDoesNotWaitForAPerson(t *testing.T) {
	b := newBench(t)
	b.admitted("c", `["p1"]`)
	j := b.job("c", `["p1"]`)
	psql := b.begin(`SELECT FROM notifyworker.refreshes FOR UPDATE`)
	if got := said(b.impatient(), `SELECT outcome FROM notifyworker.admit_refresh($1, $2, $3, 60000)`, j.ID, j.Token, workerB); got != "product_in_flight" {
		t.Errorf("got %s", got)
	}
	must(t, psql.Rollback(context.Background()))
}

// A recomputation may say any number: one that no column holds would keep the refresh from its end for ever.
func TestACountBeyondAllNumbersIsTheHighest(t *testing.T) {
	b := newBench(t)
	id, token := b.admitted("c", `["p1", "p2", "p3"]`)
	const most = "9223372036854775807"
	for i, answer := range []string{`{"recomputed": 1e300}`, `{"recomputed": -1e300}`, `{"recomputed": 9223372036854775807}`} {
		if got := said(b.pool, `SELECT recomputed::text FROM notifyworker.recompute_chunk($1, $2, 60000, $3, 'json', $4::text::jsonb, NULL, $5, $6, NULL, 'c')`,
			id, token, `SELECT '`+answer+`'::jsonb`, ids(i+1, 1), i+1, i == 2); got != []string{most, "0", most}[i] {
			t.Errorf("%s: %s", answer, got)
		}
	}
	if got := value[string](b, `SELECT status || ' ' || recomputed FROM notifyworker.refreshes WHERE id = $1`, id); got != "DONE "+most {
		t.Errorf("the refresh is %s", got)
	}
}

func TestAnAdmissionIsForTheHolderOfTheJobOnly(t *testing.T) {
	b := newBench(t)
	j := b.job("c", `["p1"]`)
	const admit = `SELECT outcome FROM notifyworker.admit_refresh($1, $2, $3, 60000)`
	if got := said(b.pool, admit, j.ID, workerB, workerB); got != "lost" {
		t.Errorf("a stranger: %s", got)
	}
	strict := b.db.Conn(t)
	_, err := strict.Exec(context.Background(), `SET default_transaction_isolation = 'repeatable read'`)
	must(t, err)
	if got := said(strict, admit, j.ID, j.Token, workerA); got != "25001" {
		t.Errorf("with a snapshot that may be older than the locks: %s", got)
	}
	psql := b.begin(`SELECT FROM notifyworker.jobs FOR UPDATE`)
	if got := said(b.impatient(), admit, j.ID, j.Token, workerA); got != "busy" {
		t.Errorf("while somebody has locked the job: %s", got)
	}
	must(t, psql.Rollback(context.Background()))
	if got := said(b.pool, admit, j.ID, j.Token, workerA); got != "accepted" {
		t.Errorf("the holder: %s", got)
	}
}
