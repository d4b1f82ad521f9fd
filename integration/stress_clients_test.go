package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// supplier enqueues in transactions of one to three calls: most end at once, some stay open, some are rolled back.
func (s *stress) supplier(ctx context.Context, i int) error {
	r := s.rng("supplier", i)
	c, err := s.connect(ctx, "supplier")
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for k := 0; !s.stop.Load(); k++ {
		if err := s.transaction(ctx, c, r, fmt.Sprintf("%d-%d", i, k)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stress) connect(ctx context.Context, name string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(s.db.URL)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = name
	return pgx.ConnectConfig(ctx, cfg)
}

func (s *stress) transaction(ctx context.Context, c *pgx.Conn, r *rand.Rand, name string) error {
	iso := []string{readCommitted, readCommitted, readCommitted, repeatableRead, serializable}[r.IntN(5)]
	if _, err := c.Exec(ctx, "BEGIN ISOLATION LEVEL "+iso); err != nil {
		return err
	}
	var facts []fact
	ok := true
	for q := range 1 + r.IntN(3) {
		got, err := s.enqueueSome(ctx, c, r, fmt.Sprintf("%s-%d", name, q))
		if raw := (*rawError)(nil); errors.As(err, &raw) && raw.allowed() {
			s.count("raw statements refused")
			ok = false
			break
		} else if err != nil {
			return err
		}
		facts = append(facts, got...)
	}
	switch {
	case r.IntN(120) == 0:
		s.count("transactions that idled")
		pause(ctx, time.Duration(300+r.IntN(400))*time.Millisecond)
	case r.IntN(3) == 0:
		pause(ctx, time.Duration(r.IntN(4000))*time.Microsecond)
	}
	end := "COMMIT"
	if !ok || r.IntN(15) == 0 {
		end = "ROLLBACK"
	}
	if _, err := c.Exec(ctx, end); err != nil {
		return fmt.Errorf("%s: %w", end, err)
	}
	s.enqueued(facts, end == "COMMIT")
	return nil
}

// rawError is an error of a statement of the client's own, which may meet the unique index, and at higher levels others.
type rawError struct{ error }

func (e *rawError) allowed() bool {
	var pg *pgconn.PgError
	return errors.As(e.error, &pg) && (pg.Code == "23505" || pg.Code == "40001")
}

// enqueueSome makes one call, or one plain INSERT, of up to four ids for one or two catalogs.
func (s *stress) enqueueSome(ctx context.Context, c *pgx.Conn, r *rand.Rand, name string) ([]fact, error) {
	ids := []string{}
	for z := range r.IntN(5) {
		ids = append(ids, fmt.Sprintf("%s-%d", name, z))
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	catalogs := []string{catalogOf(r)}
	var sql string
	args := []any{catalogs[0], string(list)}
	kind := r.IntN(20)
	switch {
	case kind < 12:
		sql = `SELECT notifyworker.enqueue_price_refresh($1, $2::text::jsonb)`
	case kind < 16:
		if other := catalogOf(r); other != catalogs[0] {
			catalogs = append(catalogs, other)
		}
		sql = `SELECT notifyworker.enqueue_price_refreshes((SELECT jsonb_agg(jsonb_build_object('catalogId', x, 'productIds', $2::text::jsonb)) FROM unnest($1::text[]) x))`
		args[0] = catalogs
	case kind < 17:
		sql = `SELECT notifyworker.enqueue_price_refresh($1, $2::text::jsonb, delay => '50 ms')`
	case kind < 18:
		// A savepoint that is given up takes its locks and its ids with it.
		if _, err := c.Exec(ctx, `SAVEPOINT s; SELECT notifyworker.enqueue_price_refresh('hot0', '["given up"]'); ROLLBACK TO s`); err != nil {
			return nil, err
		}
		sql = `SELECT notifyworker.enqueue_price_refresh($1, $2::text::jsonb)`
	default:
		s.count("raw INSERTs")
		sql = `INSERT INTO notifyworker.jobs (type, config) VALUES ('PRICE_REFRESH', jsonb_build_object('catalogId', $1::text, 'productIds', $2::text::jsonb))`
	}
	s.count("enqueues")
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		if kind >= 18 {
			return nil, &rawError{err}
		}
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	var facts []fact
	for _, catalog := range catalogs {
		for _, id := range ids {
			facts = append(facts, fact{catalog, fmt.Sprintf("%q", id)})
		}
	}
	return facts, nil
}

// operator cancels what waits or runs, and replays what is dead, by hand, in transactions that may stay open for a moment.
func (s *stress) operator(ctx context.Context, i int) error {
	r := s.rng("operator by hand", i)
	c, err := s.connect(ctx, "operator")
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for !s.stop.Load() {
		sql, what := `SELECT notifyworker.replay(id) FROM notifyworker.jobs WHERE status = 'FAILED' ORDER BY random() LIMIT 3`, "replays"
		if r.IntN(3) == 0 {
			sql, what = `SELECT notifyworker.cancel(id) FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING') ORDER BY random() LIMIT 1`, "cancels"
		}
		if _, err := c.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		s.count(what)
		pause(ctx, time.Duration(r.IntN(20))*time.Millisecond)
		if _, err := c.Exec(ctx, "COMMIT"); err != nil {
			return err
		}
		pause(ctx, time.Duration(r.IntN(60))*time.Millisecond)
	}
	return nil
}

// pause is somebody's time between two calls.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
