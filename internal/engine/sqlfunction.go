package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// SQLFunctionConfig is complete when Name and Pool are set.
type SQLFunctionConfig struct {
	// Name of a function with one of these shapes, the first that exists:
	//
	//	name(tenant_id uuid, catalog_id text, product_ids jsonb)
	//	name(catalog_id text, product_ids jsonb)
	//	name(catalog_id text, product_ids text[])
	//
	// product_ids is NULL for a whole catalog. It returns the number of prices recomputed (an integer type or numeric), or
	// jsonb {"recomputed": n, "failed": [{"id": …, "error": "…"}]}, or nothing (void).
	Name    string
	Pool    *pgxpool.Pool
	Timeout time.Duration // of a call; 0 means one minute
	// SameDatabase says that Pool reaches the database that notifyworker's schema is in, as a role that may use it: a chunk
	// and its progress are then one commit. False means two.
	SameDatabase bool
}

// SQLFunction is a Recomputer that calls a SQL function of the user's, each chunk in a READ COMMITTED transaction of its
// own. What its errors mean, by SQLSTATE: see classify. It may raise NW429 to say "not now", with seconds in DETAIL.
type SQLFunction struct {
	cfg SQLFunctionConfig

	mu    sync.Mutex
	found function // zero until it has been looked up
}

// NewSQLFunction returns a Recomputer, or all that is wrong with cfg at once. Check looks the function up.
func NewSQLFunction(cfg SQLFunctionConfig) (*SQLFunction, error) {
	var errs []error
	if cfg.Name == "" {
		errs = append(errs, errors.New("the recompute function has no name"))
	}
	if cfg.Pool == nil {
		errs = append(errs, errors.New("the recompute function has no Pool"))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("recompute_timeout is %v: it can't be negative", cfg.Timeout))
	}
	cfg.Timeout = orDefault(cfg.Timeout, time.Minute)
	return &SQLFunction{cfg: cfg}, errors.Join(errs...)
}

// Check says whether the function exists in one of the shapes.
func (f *SQLFunction) Check(ctx context.Context) error {
	_, err := f.function(ctx)
	return err
}

// String names the function, for logs.
func (f *SQLFunction) String() string { return "sql:" + f.cfg.Name }

func (f *SQLFunction) function(ctx context.Context) (function, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found.name == "" {
		found, err := lookUp(ctx, f.cfg.Pool, f.cfg.Name, recomputeSignatures)
		if err != nil {
			return function{}, err
		}
		f.found = found
	}
	return f.found, nil
}

// forget has the function looked up again: it was replaced by one of another shape.
func (f *SQLFunction) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = function{}
}

const (
	returnsCount   = "count"
	returnsJSON    = "json"
	returnsNothing = "nothing"
)

// call is the SELECT of the function, and what it returns.
func (f function) call() (sql, returns string) {
	call := f.name + "(" + f.passes + ")"
	switch f.returns {
	case "void":
		return "SELECT " + call, returnsNothing
	case "json", "jsonb":
		return "SELECT " + call + "::jsonb", returnsJSON
	}
	return "SELECT " + call + "::bigint", returnsCount
}

// Recompute calls the function in a transaction of its own.
func (f *SQLFunction) Recompute(ctx context.Context, c Chunk) (n int64, failed []FailedID, err error) {
	fn, err := f.function(ctx)
	if err != nil {
		return 0, nil, err
	}
	sql, returns := fn.call()
	ids, texts, err := arguments(fn, c)
	if err != nil {
		return 0, nil, err
	}
	n = int64(len(c.ProductIDs))
	err = f.transaction(ctx, func(b *pgx.Batch) {
		q := b.Queue(byName.Replace(sql)+` FROM (SELECT $1::text::uuid AS tenant, $2::text AS catalog, $3::text::jsonb AS ids, $4::text[] AS texts) p`,
			c.TenantID, c.CatalogID, ids, texts)
		switch returns {
		case returnsCount:
			q.QueryRow(func(r pgx.Row) error {
				var count *int64
				if err := r.Scan(&count); err != nil {
					return err
				}
				if count != nil {
					n = max(*count, 0)
				}
				return nil
			})
		case returnsJSON:
			q.QueryRow(func(r pgx.Row) error {
				var text []byte
				err := r.Scan(&text)
				if err == nil {
					n, failed, err = readAnswer(text, c)
				}
				return err
			})
		}
	})
	return n, failed, err
}

// byName gives the parameters of a call the types that the function wants, whatever protocol the pool speaks.
var byName = strings.NewReplacer("$1", "p.tenant", "$2", "p.catalog", "$3", "p.ids", "$4", "p.texts")

func (f *SQLFunction) shares() bool { return f.cfg.SameDatabase }

func (f *SQLFunction) recomputeIn(ctx context.Context, c Chunk, w writing) (out written, err error) {
	fn, err := f.function(ctx)
	if err != nil {
		return written{}, err
	}
	sql, returns := fn.call()
	ids, texts, err := arguments(fn, c)
	if err != nil {
		return written{}, err
	}
	var done *int
	if !c.Part {
		done = &w.done
	}
	err = f.transaction(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT recomputed, failed::text, dead_letter_id, waiters
		           FROM `+w.schema+`.recompute_chunk($1, $2::text::uuid, $3, $4, $5, $6::text::jsonb, $7::text[], $8, $9, $10::text::uuid, $11)`,
			c.ID, w.token, w.leaseMS, sql, returns, ids, texts, done, w.last, c.TenantID, c.CatalogID).QueryRow(func(r pgx.Row) error {
			var failed []byte
			var letter *int64
			var waiters *int
			if err := r.Scan(&out.n, &failed, &letter, &waiters); err != nil {
				return err
			}
			out.released = newReleased(letter, waiters)
			return json.Unmarshal(failed, &out.failed)
		})
	})
	switch {
	case isLost(err):
		err = ErrRefreshLost
	case isPast(err):
		return written{}, nil // written by an earlier call, which counted what it recomputed
	}
	return out, err
}

// arguments are a chunk's ids as jsonb and, where the function wants that, as text[]; NULL for a whole catalog.
func arguments(fn function, c Chunk) (ids *string, texts []string, err error) {
	if c.ProductIDs == nil {
		return nil, nil, nil
	}
	data, err := json.Marshal(c.ProductIDs)
	if err != nil {
		return nil, nil, fmt.Errorf("write the product ids: %w", err)
	}
	if fn.args == "text, text[]" {
		texts = make([]string, len(c.ProductIDs))
		for i, id := range c.ProductIDs {
			texts[i] = plain(id)
		}
	}
	text := string(data)
	return &text, texts, nil
}

// transaction is limited for this function.
func (f *SQLFunction) transaction(ctx context.Context, fill func(*pgx.Batch)) error {
	err := limited(ctx, f.cfg.Pool, f.cfg.Timeout, fill)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42883" {
		f.forget()
	}
	return err
}

// grace is how long the server may take to say that its time limit has ended a call.
const grace = 5 * time.Second

// limited sends a READ COMMITTED transaction that calls a function of the user's with the call's time limit, which the server
// keeps, in one round trip.
func limited(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, fill func(*pgx.Batch)) error {
	ctx, done := context.WithTimeout(ctx, limit+grace)
	defer done()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = oneTrip(ctx, conn, func(b *pgx.Batch) {
		// The session's limits are for our own short statements; what the user's function waits for, this one ends.
		b.Queue(`SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', '0', true)`, strconv.FormatInt(limit.Milliseconds(), 10)+"ms")
		fill(b)
	})
	var pg *pgconn.PgError
	// The transaction failed, the connection did not: keep it.
	if errors.As(err, &pg) && conn.Conn().PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK") // if this fails too, the pool drops the connection
	}
	return err
}
