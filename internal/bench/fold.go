package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/queue"
)

const foldIDs = 40_000

// foldTurn reserves a job that additions of so many ids each have joined, and returns the milliseconds.
func (r *run) foldTurn(ctx context.Context, c *contender, per int) (ms float64, err error) {
	if err := r.clear(ctx, c.schema); err != nil {
		return 0, err
	}
	pool, err := queue.OpenPool(ctx, r.place.url, "notifyworker bench", 2)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	store, err := queue.New(queue.Config{DB: pool, Schema: c.schema, WorkerID: newUUID()})
	if err != nil {
		return 0, err
	}
	schema := pgx.Identifier{c.schema}.Sanitize()
	for range 2 { // a job and an addition: the first fold of a session makes its plans
		if _, err := pool.Exec(ctx, "SELECT "+schema+`.enqueue_price_refresh('first', '["p1"]')`); err != nil {
			return 0, err
		}
	}
	if _, err := store.Reserve(ctx, 1); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, "SELECT "+schema+`.enqueue_price_refresh('fold', '["p1"]')`); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, "INSERT INTO "+schema+`.job_additions (tenant_id, catalog_id, product_ids)
		SELECT $1::uuid, 'fold', jsonb_agg('p' || n ORDER BY n) FROM generate_series(1, $2::int) n GROUP BY (n - 1) / $3::int ORDER BY (n - 1) / $3::int`, queue.DefaultTenant, foldIDs, per); err != nil {
		return 0, err
	}
	at := time.Now()
	res, err := store.Reserve(ctx, 1)
	took := time.Since(at)
	if err != nil {
		return 0, err
	}
	if len(res.Jobs) != 1 || res.Jobs[0].ProductCount != foldIDs {
		return 0, fmt.Errorf("the reservation brought %d jobs, not one of %d ids", len(res.Jobs), foldIDs)
	}
	return float64(took) / float64(time.Millisecond), nil
}

// bareFoldTurn deletes as many rows as foldTurn folds, with one id each, by one statement that answers with one array of the
// ids, and returns the milliseconds: what PostgreSQL takes for that on this machine.
func (r *run) bareFoldTurn(ctx context.Context, schema string) (ms float64, err error) {
	err = r.place.withConn(ctx, func(conn *pgx.Conn) error {
		table := pgx.Identifier{schema, "bare_additions"}.Sanitize()
		for _, sql := range []string{
			"DROP TABLE IF EXISTS " + table,
			"CREATE TABLE " + table + " (catalog_id text, id bigint GENERATED ALWAYS AS IDENTITY, product_ids jsonb NOT NULL, PRIMARY KEY (catalog_id, id))",
			fmt.Sprintf("INSERT INTO %s (catalog_id, product_ids) SELECT 'fold', jsonb_build_array('p' || n) FROM generate_series(1, %d) n", table, foldIDs),
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		sql := "WITH gone AS (DELETE FROM " + table + " WHERE catalog_id = $1 RETURNING id, product_ids -> 0 AS e) SELECT jsonb_agg(e ORDER BY id), count(*) FROM gone"
		var ids []byte
		var n int
		if err := conn.QueryRow(ctx, sql, "nothing").Scan(&ids, &n); err != nil { // as above: the plan is made
			return err
		}
		at := time.Now()
		if err := conn.QueryRow(ctx, sql, "fold").Scan(&ids, &n); err != nil {
			return err
		}
		ms = float64(time.Since(at)) / float64(time.Millisecond)
		if n != foldIDs {
			return fmt.Errorf("%d rows were deleted, not %d", n, foldIDs)
		}
		_, err := conn.Exec(ctx, "DROP TABLE "+table)
		return err
	})
	return ms, err
}
