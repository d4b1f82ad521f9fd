package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// figures are what is shown of one set at one moment. All of it is counted in the database.
type figures struct {
	published, joined         int64 // updates committed; of these, requests that joined a waiting job
	waiting, running          int64 // jobs, and refreshes among the running
	completed, merged, failed int64 // jobs
	requeued                  int64 // times a job went back to waiting
	recomputed                int64 // prices
	started                   int64 // updates whose first start is known
	p50, p99, longest         time.Duration
}

// The ids of a publication started with the first reservation that could see its commit and took them. That is asked of the
// snapshot, not of clocks. A job that was handed over by the publication's own commit was reserved before that: there the time is that of
// its admission or refusal, a moment after its start.
const matchSQL = `
UPDATE demo.ledger l SET started_at = s.started_at, committed_at = coalesce(l.committed_at, s.committed_at)
  FROM (SELECT o.id, %s AS committed_at,
               (SELECT min(CASE WHEN m.xid = o.xid
                                THEN (SELECT min(n.at) FROM demo.moves n WHERE n.queue = m.queue AND n.job_id = m.job_id AND n.was = 'RUNNING')
                                ELSE m.started_at END) FROM demo.moves m
                 WHERE m.became = 'RUNNING' AND m.queue = o.queue AND m.catalog_id = o.catalog_id
                   AND (pg_visible_in_snapshot(o.xid, m.seen) OR m.xid = o.xid) AND m.product_ids @> o.product_ids) AS started_at
          FROM demo.ledger o WHERE o.started_at IS NULL) s
 WHERE l.id = s.id AND s.started_at IS NOT NULL AND coalesce(l.committed_at, s.committed_at) IS NOT NULL`

const figuresSQL = `
SELECT (SELECT count(*) FROM demo.ledger WHERE queue = $1),
       (SELECT count(*) FROM demo.ledger WHERE queue = $1 AND joined),
       (SELECT count(*) FROM SCHEMA.jobs WHERE status = 'PENDING'),
       (SELECT count(*) FROM SCHEMA.jobs WHERE status = 'RUNNING') + (SELECT count(*) FROM SCHEMA.refreshes WHERE status = 'ACTIVE'),
       (SELECT count(*) FROM SCHEMA.jobs WHERE status LIKE 'COMPLETED%' AND NOT result ? 'mergedIntoJobId'),
       (SELECT count(*) FROM SCHEMA.jobs WHERE status = 'COMPLETED' AND result ? 'mergedIntoJobId'),
       (SELECT count(*) FROM SCHEMA.jobs WHERE status = 'FAILED'),
       (SELECT count(*) FROM demo.moves WHERE queue = $1 AND was = 'RUNNING' AND became = 'PENDING'),
       (SELECT coalesce(sum(recomputed), 0)::bigint FROM SCHEMA.refreshes),
       l.n, l.p50, l.p99, l.longest
  FROM (SELECT count(*) AS n, coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY ms), 0) AS p50,
               coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY ms), 0) AS p99, coalesce(max(ms), 0) AS longest
          FROM (SELECT greatest(0, extract(epoch FROM started_at - committed_at) * 1000)::float8 AS ms
                  FROM demo.ledger WHERE queue = $1 AND started_at IS NOT NULL) s) l`

// measurer looks at both sets. One goroutine uses it.
type measurer struct {
	conn  *pgx.Conn
	match string
}

// newMeasurer asks whether the server keeps the times of commits.
func newMeasurer(ctx context.Context, conn *pgx.Conn) (m *measurer, exact bool, err error) {
	var kept string
	if err := conn.QueryRow(ctx, "SHOW track_commit_timestamp").Scan(&kept); err != nil {
		return nil, false, fmt.Errorf("ask whether commit times are kept: %w", err)
	}
	committed := "NULL::timestamptz"
	if kept == "on" {
		committed = "pg_xact_commit_timestamp(o.xid::xid)"
	}
	return &measurer{conn: conn, match: fmt.Sprintf(matchSQL, committed)}, kept == "on", nil
}

// look measures all sets.
func (m *measurer) look(ctx context.Context, all []set) ([]figures, error) {
	if _, err := m.conn.Exec(ctx, m.match); err != nil {
		return nil, fmt.Errorf("match publications with starts: %w", err)
	}
	out := make([]figures, len(all))
	for i, s := range all {
		f := &out[i]
		var p50, p99, longest float64
		sql := strings.ReplaceAll(figuresSQL, "SCHEMA", pgx.Identifier{s.schema}.Sanitize())
		err := m.conn.QueryRow(ctx, sql, s.schema).Scan(&f.published, &f.joined, &f.waiting, &f.running, &f.completed, &f.merged, &f.failed,
			&f.requeued, &f.recomputed, &f.started, &p50, &p99, &longest)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", s.name, err)
		}
		f.p50, f.p99, f.longest = milliseconds(p50), milliseconds(p99), milliseconds(longest)
	}
	return out, nil
}

// since leaves out what was counted before the publishing began.
func (f figures) since(before figures) figures {
	f.completed -= before.completed
	f.merged -= before.merged
	f.requeued -= before.requeued
	f.recomputed -= before.recomputed
	return f
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
