package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// store is what the engine says to notifyworker's schema: calls of the functions of triggers/60_engine_*.sql. Arguments are
// cast from text, so that they pass whatever protocol the pool speaks.
type store struct {
	pool    *pgxpool.Pool
	schema  string // quoted
	worker  string
	article *string
	leaseMS int
	endings *queue.Ended
}

func newStore(cfg Config) store {
	s := store{pool: cfg.Pool, schema: pgx.Identifier{cfg.Schema}.Sanitize(), worker: cfg.WorkerID, leaseMS: int(cfg.Lease.Milliseconds()), endings: &queue.Ended{}}
	if cfg.ArticleFunction != "" {
		s.article = &cfg.ArticleFunction
	}
	return s
}

// once runs one statement that returns one row, in one round trip and one READ COMMITTED transaction, whatever the role's
// default is.
func (s store) once(ctx context.Context, scan func(pgx.Row) error, sql string, args ...any) error {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	return oneTrip(ctx, s.pool, func(b *pgx.Batch) { b.Queue(sql, args...).QueryRow(scan) })
}

type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// oneTrip sends a whole READ COMMITTED transaction at once: a process that is frozen in the middle of it leaves no lock
// behind. A connection whose transaction failed is no longer used by the pool.
func oneTrip(ctx context.Context, db batcher, fill func(*pgx.Batch)) error {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	fill(&b)
	b.Queue("COMMIT")
	return db.SendBatch(ctx, &b).Close()
}

type admission struct {
	outcome   string
	refreshID int64
	token     string
}

func (s store) admit(ctx context.Context, j queue.Job) (a admission, err error) {
	var id *int64
	var token *string
	err = s.once(ctx, func(r pgx.Row) error { return r.Scan(&a.outcome, &id, &token) },
		`SELECT outcome, refresh_id, refresh_token::text FROM `+s.schema+`.admit_refresh($1, $2::text::uuid, $3::text::uuid, $4, $5)`,
		j.ID, j.Token, s.worker, s.leaseMS, s.article)
	if id != nil {
		a.refreshID = *id
	}
	if token != nil {
		a.token = *token
	}
	return a, err
}

// progress writes how far a refresh has come, or ErrRefreshLost.
func (s store) progress(ctx context.Context, r *refresh, done int, n int64, failed []FailedID) error {
	var held bool
	err := s.once(ctx, func(row pgx.Row) error { return row.Scan(&held) },
		`SELECT `+s.schema+`.progress_refresh($1, $2::text::uuid, $3, $4, $5, $6::text::jsonb)`,
		r.ID, r.token, s.leaseMS, done, n, failures(failed))
	if err == nil && !held {
		return ErrRefreshLost
	}
	return err
}

// release ends a refresh, or ErrRefreshLost. With given up not nil, all after the first done ids has failed.
func (s store) release(ctx context.Context, r *refresh, n int64, failed []FailedID, givenUp error, done int) (out released, err error) {
	var outcome string
	var letter *int64
	var waiters *int
	var why *string
	if givenUp != nil {
		text := reason(givenUp.Error())
		why = &text
	}
	err = s.once(ctx, func(row pgx.Row) error { return row.Scan(&outcome, &letter, &waiters) },
		`SELECT outcome, dead_letter_id, waiters FROM `+s.schema+`.release_refresh($1, $2::text::uuid, $3, $4::text::jsonb, $5, $6)`,
		r.ID, r.token, n, failures(failed), why, done)
	switch {
	case err != nil:
		return released{}, err
	case outcome != "done":
		return released{}, ErrRefreshLost
	}
	return newReleased(letter, waiters), nil
}

// ended says whether a refresh that is lost was released: the commit of an earlier try, whose answer got lost.
func (s store) ended(ctx context.Context, r *refresh) (ended bool) {
	err := s.once(context.WithoutCancel(ctx), func(row pgx.Row) error { return row.Scan(&ended) },
		`SELECT EXISTS (SELECT FROM `+s.schema+`.refreshes WHERE id = $1 AND status <> 'ACTIVE')`, r.ID)
	return err == nil && ended
}

func newReleased(letter *int64, waiters *int) (out released) {
	if letter != nil {
		out.deadLetterID = *letter
	}
	if waiters != nil {
		out.waiters = *waiters
	}
	return out
}

// list writes down what a full refresh has to do and returns it, or ErrRefreshLost.
func (s store) list(ctx context.Context, r *refresh, ids []json.RawMessage) (all []json.RawMessage, err error) {
	text, err := json.Marshal(orDefaultSlice(ids))
	if err != nil {
		return nil, err
	}
	var listed []byte
	err = s.once(ctx, func(row pgx.Row) error { return row.Scan(&listed) },
		`SELECT `+s.schema+`.list_refresh($1, $2::text::uuid, $3, $4::text::jsonb)::text`, r.ID, r.token, s.leaseMS, string(text))
	switch {
	case err != nil:
		return nil, err
	case listed == nil:
		return nil, ErrRefreshLost
	}
	return all, json.Unmarshal(listed, &all)
}

// begin writes how many runs of a refresh that was taken over have begun, or ErrRefreshLost.
func (s store) begin(ctx context.Context, r *refresh, takeovers int) error {
	var held bool
	err := s.once(ctx, func(row pgx.Row) error { return row.Scan(&held) },
		`SELECT `+s.schema+`.begin_refresh($1, $2::text::uuid, $3)`, r.ID, r.token, takeovers)
	if err == nil && !held {
		return ErrRefreshLost
	}
	return err
}

// extend is the heartbeat; it returns which leases are extended, and which refreshes are lost. The rows of the others are locked.
func (s store) extend(ctx context.Context, held []*refresh) (extended, lost []int64, err error) {
	ids, tokens := names(held)
	err = s.once(ctx, func(row pgx.Row) error { return row.Scan(&extended, &lost) },
		`SELECT extended, lost FROM `+s.schema+`.extend_refreshes($1::bigint[], $2::text[]::uuid[], $3)`, ids, tokens, s.leaseMS)
	return extended, lost, err
}

func (s store) handBack(ctx context.Context, held []*refresh) (n int, err error) {
	ids, tokens := names(held)
	counted := []int64{}
	for _, r := range held {
		if r.counted {
			counted = append(counted, r.ID)
		}
	}
	err = s.once(ctx, func(row pgx.Row) error { return row.Scan(&n) },
		`SELECT `+s.schema+`.hand_back_refreshes($1::bigint[], $2::text[]::uuid[], $3::bigint[])`, ids, tokens, counted)
	return n, err
}

func names(held []*refresh) (ids []int64, tokens []string) {
	for _, r := range held {
		ids, tokens = append(ids, r.ID), append(tokens, r.token)
	}
	return ids, tokens
}

// takeOver returns refreshes whose lease has ended within so many ms, nil for all, at most limit, held by this process from now on.
func (s store) takeOver(ctx context.Context, limit int, within *int64) (taken []*refresh, err error) {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	asked := time.Now()
	if within == nil {
		defer func() { s.endings.Searched(time.Since(asked)) }()
	}
	err = oneTrip(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(`SELECT id, lock_token::text, job_id, tenant_id::text, catalog_id, scope = 'FULL', listed, product_ids::text, done_count,
		                failed_count, attempts, coalesce(trace_id, ''), coalesce(operated_by::text, '')
		           FROM `+s.schema+`.take_over_refreshes($1::text::uuid, $2, $3, $4)`, s.worker, s.leaseMS, limit, within).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var ids []byte
				r := &refresh{taken: true, leaseUntil: asked.Add(time.Duration(s.leaseMS) * time.Millisecond)}
				if err := rows.Scan(&r.ID, &r.token, &r.JobID, &r.TenantID, &r.CatalogID, &r.Full, &r.listed, &ids, &r.done,
					&r.failed, &r.takeovers, &r.TraceID, &r.OperatedBy); err != nil {
					return err
				}
				if err := json.Unmarshal(ids, &r.ids); err != nil {
					return fmt.Errorf("read product ids of refresh %d: %w", r.ID, err)
				}
				taken = append(taken, r)
			}
			return rows.Err()
		})
	})
	if err != nil {
		return nil, fmt.Errorf("take over refreshes: %w", err)
	}
	return taken, nil
}

// wake ends the back-off of what waits in catalogs.
func (s store) wake(ctx context.Context, keys []catalogKey) error {
	var tenants, catalogs []string
	for _, k := range keys {
		tenants, catalogs = append(tenants, k.tenant), append(catalogs, k.catalog)
	}
	var n int
	return s.once(ctx, func(row pgx.Row) error { return row.Scan(&n) },
		`SELECT count(`+s.schema+`.wake_catalog(k.tenant, k.catalog)) FROM unnest($1::text[]::uuid[], $2::text[]) k(tenant, catalog)`,
		tenants, catalogs)
}

// failures is a list of failures as JSON, never NULL.
func failures(failed []FailedID) string {
	text, err := json.Marshal(orDefaultSlice(failed))
	if err != nil { // an id that is not JSON: it was read from JSON
		panic(err)
	}
	return string(text)
}

func orDefaultSlice[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
