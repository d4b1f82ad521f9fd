package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// SQLConfig is complete when Name and Pool are set.
type SQLConfig struct {
	Name    string // name(job_id bigint, config jsonb) returning jsonb or void, with its schema where it needs one
	Pool    *pgxpool.Pool
	Timeout time.Duration // of the call; 0 means no limit of its own
}

// SQL hands jobs to a SQL function of the user's, each in a READ COMMITTED transaction of its own:
//
//	name(job_id bigint, config jsonb) RETURNS jsonb   or void
//
// It returns NULL, or a JSON object of at most 1 MiB that is merged into the job's result; with a non-empty array "errors"
// in it, the job is COMPLETED_WITH_ERRORS. What it raises, by SQLSTATE:
//
//	NW429      not now: tried again; after the seconds in DETAIL where there are any, else with back-off
//	NW422      FAILED at once: the same job would fail again
//	the rest   tried again with back-off
//
// A call that fails, or whose answer breaks the rules, is rolled back.
type SQL struct{ cfg SQLConfig }

// NewSQL returns a handler, or all that is wrong with cfg at once. Check looks the function up.
func NewSQL(cfg SQLConfig) (*SQL, error) {
	var errs []error
	if cfg.Name == "" {
		errs = append(errs, errors.New("the handler's SQL function has no name"))
	}
	if cfg.Pool == nil {
		errs = append(errs, errors.New("the handler's SQL function has no Pool"))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout is %v: it can't be negative", cfg.Timeout))
	}
	return &SQL{cfg: cfg}, errors.Join(errs...)
}

// String names the function, for logs.
func (h *SQL) String() string { return "sql:" + h.cfg.Name }

// Check says whether the function exists in the right shape.
func (h *SQL) Check(ctx context.Context) error {
	_, err := lookUp(ctx, h.cfg.Pool, h.cfg.Name)
	return err
}

const (
	notNow    = "NW429"
	permanent = "NW422"

	maxDelay  = time.Hour
	maxResult = 1 << 20         // bytes
	grace     = 5 * time.Second // for the server to say that its time limit has ended a call
)

// Handle calls the function.
func (h *SQL) Handle(ctx context.Context, j queue.Job) queue.Outcome {
	result, err := h.call(ctx, j)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return done(result)
	case ctx.Err() != nil:
		return stopped(ctx, err)
	case errors.As(err, &pg) && pg.Code == notNow:
		return queue.Outcome{Kind: queue.Refused, Err: raised(pg), Delay: delayOf(pg)}
	case errors.As(err, &pg) && pg.Code == permanent:
		return queue.Outcome{Kind: queue.Permanent, Err: raised(pg)}
	}
	return queue.Outcome{Kind: queue.Failed, Err: err}
}

// call looks the function up each time: a job's work is much longer, and a function may be replaced at any time.
func (h *SQL) call(ctx context.Context, j queue.Job) (result json.RawMessage, err error) {
	f, err := lookUp(ctx, h.cfg.Pool, h.cfg.Name)
	if err != nil {
		return nil, err
	}
	if h.cfg.Timeout > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, h.cfg.Timeout+grace)
		defer end()
	}
	err = pgx.BeginTxFunc(ctx, h.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// The session's limits are for the worker's own short statements: a user's function has its own, 0 being none.
		ms := strconv.FormatInt(h.cfg.Timeout.Milliseconds(), 10) + "ms"
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', '0', true)`, ms); err != nil {
			return fmt.Errorf("set the time limit: %w", err)
		}
		call := `SELECT ` + f.name + `(p.id, p.config) FROM (SELECT $1::bigint AS id, $2::text::jsonb AS config) p`
		if f.void {
			_, err := tx.Exec(ctx, call, j.ID, string(j.Config))
			return err
		}
		var text []byte
		if err := tx.QueryRow(ctx, `SELECT r.r::text FROM (`+call+`) r(r)`, j.ID, string(j.Config)).Scan(&text); err != nil {
			return err
		}
		result, err = object(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", h.cfg.Name, err)
	}
	return result, nil
}

// object is a function's answer as a result: jsonb's own text, so UTF-8 and storable anywhere.
func object(text []byte) (json.RawMessage, error) {
	switch {
	case text == nil || string(text) == "null":
		return nil, nil
	case text[0] != '{':
		return nil, fmt.Errorf("it returned JSON that is not an object: %.80s", text)
	case len(text) > maxResult:
		return nil, fmt.Errorf("it returned %d bytes, at most %d are allowed", len(text), maxResult)
	}
	return text, nil
}

// raised is what the function said, without the SQLSTATE that has been understood.
func raised(pg *pgconn.PgError) error { return errors.New(pg.Message) }

// delayOf reads the seconds in DETAIL; 0, which means by back-off, where there are none.
func delayOf(pg *pgconn.PgError) time.Duration {
	s, err := strconv.ParseFloat(strings.TrimSpace(pg.Detail), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || s < 0 || s != s {
		return 0
	}
	return time.Duration(min(s, maxDelay.Seconds()) * float64(time.Second))
}

// function is the user's, as the database knows it.
type function struct {
	name string // quoted, with its schema
	void bool
}

// lookUp finds name(bigint, jsonb). The name is only ever compared, never pasted into SQL: what is called is what the
// catalog says.
func lookUp(ctx context.Context, pool *pgxpool.Pool, name string) (function, error) {
	var f function
	var returns, kind string
	var set, allowed bool
	err := pool.QueryRow(ctx, `
		SELECT format('%I.%I', n.nspname, p.proname), t.typname::text, p.prokind::text, p.proretset, has_function_privilege(p.oid, 'EXECUTE')
		  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_type t ON t.oid = p.prorettype
		 WHERE p.oid = to_regprocedure($1::text || '(bigint, jsonb)')`, name).Scan(&f.name, &returns, &kind, &set, &allowed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return f, fmt.Errorf("there is no function %s(bigint, jsonb): create it, or write its name with its schema, quoted where it has capitals", name)
	case err != nil:
		return f, fmt.Errorf("look up %s(bigint, jsonb): %w", name, err)
	case kind != "f" || set || (returns != "jsonb" && returns != "void"):
		return f, fmt.Errorf("%s(bigint, jsonb) returns %s: it must return jsonb or void, and not a set", name, returns)
	case !allowed:
		return f, fmt.Errorf("%s(bigint, jsonb) exists, but this role may not EXECUTE it: grant it", name)
	}
	f.void = returns == "void"
	return f, nil
}
