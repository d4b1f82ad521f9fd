package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/load"
)

// lostSQL counts the product ids of publications that no refresh recomputed which had seen their commit when it was admitted.
const lostSQL = `
SELECT count(*) FROM demo.ledger l CROSS JOIN jsonb_array_elements(l.product_ids) p (id)
 WHERE l.queue = $1
   AND NOT EXISTS (SELECT FROM SCHEMA.refreshes r JOIN demo.admissions a ON a.queue = l.queue AND a.refresh_id = r.id
                    WHERE r.catalog_id = l.catalog_id AND r.status = 'DONE' AND pg_visible_in_snapshot(l.xid, a.seen) AND r.product_ids @> jsonb_build_array(p.id))`

// verdict is what the database says at the end.
type verdict struct {
	prices load.Verdict
	ids    int64 // enqueued
	lost   int64 // of them, not recomputed after their commit
	open   int64 // jobs, additions and refreshes that are left
	failed int64 // dead letters
	ledger int64 // publications in the ledger
	acked  int64 // publications whose commit was answered
	unseen int64 // publications without a known start
}

// judge asks. acked is how many publications each set's publisher counted itself.
func judge(ctx context.Context, conn *pgx.Conn, all []set, acked int64) (v verdict, err error) {
	if v.prices, err = load.Judge(ctx, conn); err != nil {
		return v, err
	}
	v.acked = acked
	err = conn.QueryRow(ctx, `SELECT count(*), coalesce(sum(jsonb_array_length(product_ids)), 0)::bigint, count(*) FILTER (WHERE started_at IS NULL) FROM demo.ledger`).
		Scan(&v.ledger, &v.ids, &v.unseen)
	if err != nil {
		return v, fmt.Errorf("read the ledger: %w", err)
	}
	for _, s := range all {
		var lost int64
		if err := conn.QueryRow(ctx, strings.ReplaceAll(lostSQL, "SCHEMA", pgx.Identifier{s.schema}.Sanitize()), s.schema).Scan(&lost); err != nil {
			return v, fmt.Errorf("look for lost ids of schema %s: %w", s.schema, err)
		}
		b, err := load.ReadBacklog(ctx, conn, s.schema)
		if err != nil {
			return v, err
		}
		v.lost += lost
		v.open += b.Open()
		v.failed += b.Failed
	}
	return v, nil
}

// wrong says what must not be, nil when all is right.
func (v verdict) wrong() error {
	var errs []error
	say := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	say(v.prices.Mismatches > 0, "%d of %d prices are not what the rules give", v.prices.Mismatches, v.prices.Tariffs)
	say(v.prices.Tariffs == 0 || v.prices.Prices != v.prices.Tariffs, "%d tariffs have %d prices", v.prices.Tariffs, v.prices.Prices)
	say(v.lost > 0, "%d of %d ids were not recomputed after their commit", v.lost, v.ids)
	say(v.ledger != v.acked, "%d updates were published and %d are in the ledger", v.acked, v.ledger)
	say(v.ledger == 0, "nothing was published")
	say(v.unseen > 0, "of %d updates no start was seen", v.unseen)
	say(v.open > 0, "%d jobs, additions or refreshes are left", v.open)
	say(v.failed > 0, "%d jobs failed", v.failed)
	return errors.Join(errs...)
}

// String is the verdict in two lines.
func (v verdict) String() string {
	return fmt.Sprintf("%d tariffs, %d prices, %d of them not what the rules give\n%d ids enqueued by %d updates, %d lost, %d jobs failed",
		v.prices.Tariffs, v.prices.Prices, v.prices.Mismatches, v.ids, v.ledger, v.lost, v.failed)
}
