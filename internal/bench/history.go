package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// seedSQL makes finished jobs of the last six days, which retention keeps: some of each type, one in twenty failed.
const seedSQL = `INSERT INTO %[1]s.jobs (type, status, config, attempts, created_at, updated_at, run_after, started_at, finished_at, duration_ms)
	SELECT CASE WHEN n %% 2 = 0 THEN '` + jobType + `' WHEN n %% 10 = 1 THEN 'PRICE_REFRESH' ELSE 'kind' || n %% 5 END,
	       CASE WHEN n %% 20 = 3 THEN 'FAILED' ELSE 'COMPLETED' END,
	       CASE WHEN n %% 10 = 1 THEN jsonb_build_object('catalogId', 'c' || n %% 1000, 'productIds', jsonb_build_array('p1', 'p' || n)) ELSE '{}' END,
	       1, at, at + interval '20 ms', at, at + interval '3 ms', at + interval '20 ms', n %% 17
	  FROM (SELECT n, now() - interval '6 days' * (1 - n::float8 / $3) AS at FROM generate_series($1::bigint, $2::bigint) n) h`

const seedBatch = 100_000

// seed fills a schema with so many finished jobs and no other, as they would lie there after vacuum. No worker may be at it.
func (r *run) seed(ctx context.Context, schema string, jobs int) error {
	delete(r.place.seeded, schema)
	if err := r.clear(ctx, schema); err != nil {
		return err
	}
	return r.place.withConn(ctx, func(conn *pgx.Conn) error {
		name := pgx.Identifier{schema}.Sanitize()
		// Nothing waits, so neither is there anything to guard or to announce.
		if _, err := conn.Exec(ctx, "SET statement_timeout = 0"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "ALTER TABLE "+name+".jobs DISABLE TRIGGER USER"); err != nil {
			return err
		}
		for from := 1; from <= jobs; from += seedBatch {
			if _, err := conn.Exec(ctx, fmt.Sprintf(seedSQL, name), from, min(from+seedBatch-1, jobs), jobs); err != nil {
				return fmt.Errorf("fill the history: %w", err)
			}
		}
		if _, err := conn.Exec(ctx, "ALTER TABLE "+name+".jobs ENABLE TRIGGER USER"); err != nil {
			return err
		}
		last, err := r.newest(ctx, conn, schema)
		if err != nil {
			return err
		}
		r.place.seeded[schema] = last
		_, err = conn.Exec(ctx, "VACUUM (ANALYZE) "+name+".jobs")
		return err
	})
}

// foreign is a session of somebody else's, with a snapshot that keeps vacuum from removing what dies from now on.
type foreign struct {
	conn *pgx.Conn
	pid  int
}

// pin takes the snapshot. It locks nothing, and only its end lets go of it.
func (r *run) pin(ctx context.Context) (*foreign, error) {
	conn, err := r.place.connect(ctx)
	if err != nil {
		return nil, err
	}
	f := &foreign{conn, int(conn.PgConn().PID())}
	for _, sql := range []string{
		"SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout', 'statement_timeout')",
		"SET application_name = 'somebody''s report'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			f.close(ctx)
			return nil, fmt.Errorf("pin vacuum: %w", err)
		}
	}
	return f, nil
}

// held says whether the snapshot has been there all the time.
func (f *foreign) held(ctx context.Context) error {
	if _, err := f.conn.Exec(ctx, "SELECT 1"); err != nil {
		return fmt.Errorf("the snapshot that was to pin vacuum is gone: %w", err)
	}
	return nil
}

func (f *foreign) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	f.conn.Close(ctx) //nolint:errcheck // nothing was written
}
