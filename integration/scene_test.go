package integration

import (
	"context"
	"fmt"
)

// scene is what a script finds. Every scene has a RUNNING job whose lease has ended and a FAILED job of catalog c, and a job
// that ended long ago.
type scene string

const (
	nothingWaits    scene = "nothing waits"
	aJobWaits       scene = "a job waits"
	aSuccessorWaits scene = "a successor waits" // empty, for additions that may still come
	anAdditionWaits scene = "a successor and an addition wait"
	aDelayedJob     scene = "a job waits for its back-off"
)

// set empties the tables and sets the scene, in one round trip. DELETE, since TRUNCATE would throw away every session's
// plans and cost tens of times as much.
func (w *world) set(ctx context.Context, sc scene) error {
	w.kept, w.dropped, w.excused = map[fact]bool{}, map[fact]bool{}, map[fact]bool{}
	w.told, w.seen, w.byHand = map[int64]bool{}, map[int64]bool{}, false
	w.open, w.holders = 0, 0
	if _, err := w.observer.Exec(ctx, `DELETE FROM notifyworker.job_additions; DELETE FROM notifyworker.jobs`); err != nil {
		return err
	}
	const setScene = `
		WITH r AS (
			INSERT INTO notifyworker.jobs (type, status, config, attempts, lock_token, lease_expires_at, started_at)
			VALUES ('PRICE_REFRESH', 'RUNNING', '{"catalogId": "c", "productIds": ["r1", 7]}', 1, gen_random_uuid(), now() - interval '1 s', now() - interval '10 s')
			RETURNING id, lock_token
		), f AS (
			INSERT INTO notifyworker.jobs (type, status, config, finished_at, error)
			VALUES ('PRICE_REFRESH', 'FAILED', '{"catalogId": "c", "productIds": ["f1"]}', now(), 'no')
			RETURNING id
		), o AS (
			INSERT INTO notifyworker.jobs (type, status, config, finished_at)
			VALUES ('PRICE_REFRESH', 'COMPLETED', '{"catalogId": "c", "productIds": []}', now() - interval '9 days')
		), p AS (
			INSERT INTO notifyworker.jobs (type, config, successor, run_after, updated_at)
			SELECT 'PRICE_REFRESH', jsonb_build_object('catalogId', 'c', 'productIds', CASE WHEN $2 THEN '[]'::jsonb ELSE '["p1"]' END), $2,
			       now() + CASE WHEN $3 THEN interval '1 h' ELSE interval '-1 s' END, now() - interval '2 s'
			 WHERE $1
			RETURNING id
		), a AS (
			INSERT INTO notifyworker.job_additions (tenant_id, catalog_id, product_ids)
			SELECT '00000000-0000-0000-0000-000000000000', 'c', '["a1"]' WHERE $4
		)
		SELECT (SELECT id FROM r), (SELECT lock_token::text FROM r), (SELECT id FROM f), coalesce((SELECT id FROM p), 0)`
	successor := sc == aSuccessorWaits || sc == anAdditionWaits
	err := w.observer.QueryRow(ctx, setScene, sc != nothingWaits, successor, sc == aDelayedJob, sc == anAdditionWaits).
		Scan(&w.running, &w.token, &w.failed, &w.waiting)
	if err != nil {
		return fmt.Errorf("set the scene %q: %w", sc, err)
	}
	w.keep("c", `"r1"`, `7`, `"f1"`)
	switch sc {
	case aJobWaits, aDelayedJob:
		w.keep("c", `"p1"`)
	case anAdditionWaits:
		w.keep("c", `"a1"`)
	}
	return nil
}

func (w *world) keep(catalog string, ids ...string) {
	for _, id := range ids {
		w.kept[fact{catalog, id}] = true
	}
}
