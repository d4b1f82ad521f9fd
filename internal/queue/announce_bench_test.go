package queue_test

import (
	"fmt"
	"testing"
	"time"

	"notifyworker/internal/pgtest"
)

// BenchmarkAnnounce is what the trigger that wakes workers costs an INSERT of a plain job and its commit, in other forms and when nobody sleeps. The
// INSERTs run inside the server, so that neither client nor protocol is in it, and commits don't
// wait for the disk. Least of many turns.
func BenchmarkAnnounce(b *testing.B) {
	const trigger = `CREATE CONSTRAINT TRIGGER form AFTER INSERT ON notifyworker.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION `
	tb := newTableIn(b, pgtest.DB(b))
	tb.exec(`CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE FUNCTION nothing_as_owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifyworker, pg_temp AS $$ BEGIN RETURN NULL; END $$;
		CREATE FUNCTION locks_as_owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifyworker, pg_temp AS $$ BEGIN
			IF pg_try_advisory_xact_lock_shared(1, 1) THEN RETURN NULL; END IF; RETURN NULL; END $$;
		CREATE FUNCTION locks_by_statement() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifyworker, pg_temp AS $$ BEGIN
			IF EXISTS (SELECT FROM created c WHERE c.status = 'PENDING') AND pg_try_advisory_xact_lock_shared(1, 1) THEN RETURN NULL; END IF; RETURN NULL; END $$;
		CREATE FUNCTION locks_and_queries() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = notifyworker, pg_temp AS $$ BEGIN
			IF pg_try_advisory_xact_lock_shared(1, 1) THEN
				IF NOT EXISTS (SELECT FROM workers w WHERE w.wants_notify AND w.last_beat > clock_timestamp() - interval '1 minute') THEN RETURN NULL; END IF;
			END IF; RETURN NULL; END $$`)
	forms := []struct{ name, sql string }{
		{"none", `SELECT`},
		{"does nothing", trigger + `nothing()`},
		{"does nothing, with its owner's rights", trigger + `nothing_as_owner()`},
		{"tries a lock", trigger + `locks_as_owner()`},
		{"tries a lock, by statement and not at the commit", `CREATE TRIGGER form AFTER INSERT ON notifyworker.jobs REFERENCING NEW TABLE AS created FOR EACH STATEMENT EXECUTE FUNCTION locks_by_statement()`},
		{"tries a lock, looks in workers", trigger + `locks_and_queries()`},
		{"as it is, nobody sleeps", trigger + `notifyworker.announce_work(); SELECT setval('notifyworker.no_sleepers', 1)`},
		{"as it is with a WHEN, nobody sleeps", `CREATE CONSTRAINT TRIGGER form AFTER INSERT ON notifyworker.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			WHEN (NEW.status = 'PENDING') EXECUTE FUNCTION notifyworker.announce_work(); SELECT setval('notifyworker.no_sleepers', 1)`},
		{"as it is, somebody may", trigger + `notifyworker.announce_work(); SELECT setval('notifyworker.no_sleepers', 1, false)`},
	}
	conn := tb.conn()
	if _, err := conn.Exec(b.Context(), `SET synchronous_commit = off`); err != nil {
		b.Fatal(err)
	}
	const turns, inserts = 25, 1500
	least := make([]time.Duration, len(forms)) // in turns, since the machine's speed changes within seconds
	for turn := range turns {
		for i, form := range forms {
			tb.exec(`TRUNCATE notifyworker.jobs; DROP TRIGGER IF EXISTS jobs_announce_insert ON notifyworker.jobs; DROP TRIGGER IF EXISTS form ON notifyworker.jobs; ` + form.sql)
			began := time.Now()
			if _, err := conn.Exec(b.Context(), fmt.Sprintf(`DO $$ BEGIN FOR i IN 1 .. %d LOOP INSERT INTO notifyworker.jobs (type) VALUES ('t'); COMMIT; END LOOP; END $$`, inserts)); err != nil {
				b.Fatal(err)
			}
			if took := time.Since(began); turn == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	for i, form := range forms {
		b.Run(form.name, func(b *testing.B) {
			b.ReportMetric(float64(least[i].Nanoseconds())/1e3/inserts, "µs/INSERT")
			b.ReportMetric(float64((least[i]-least[0]).Nanoseconds())/1e3/inserts, "µs-more")
			b.ReportMetric(0, "ns/op")
		})
	}
}
