package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The price travels as text: a decimal goes into numeric exactly, a float would not.
const publishSQL = `SELECT pricing.publish_tariffs($1, $2::timestamptz[], $3::text[], $4::text[], $5::text[]::numeric[], $6)`

// publisher owns one connection and publishes updates on it, again and again until it is sure. One goroutine uses it.
type publisher struct {
	cfg        *Config
	enqueueSQL string
	start      int64 // position of the load, to which the line of an update is added
	counts     *Counts
	conn       *pgx.Conn
}

// published is what the queue answered, catalog by catalog.
type published struct {
	ids, created, joined int
}

// publish brings an update in. A database that is gone for a while is waited for; an error that another try would not
// cure comes back at once.
func (p *publisher) publish(ctx context.Context, u Update) error {
	var firstFailure time.Time
	wait := 50 * time.Millisecond
	for {
		done, err := p.try(ctx, u)
		if err == nil {
			p.counts.published(u, done)
			return nil
		}
		p.disconnect()
		if firstFailure.IsZero() {
			firstFailure = time.Now()
		}
		if ctx.Err() != nil || !p.cfg.Retryable(err) || time.Since(firstFailure) > p.cfg.RetryFor {
			return fmt.Errorf("publish update %s of line %d: %w", shorten(u.ID, 60), u.Line, err)
		}
		p.counts.Retries.Add(1)
		select {
		case <-time.After(jitter(wait)):
		case <-ctx.Done():
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// try publishes an update in one round trip: both statements go out with one Sync, which makes them one transaction.
func (p *publisher) try(ctx context.Context, u Update) (done published, err error) {
	if p.conn == nil {
		if p.conn, err = p.cfg.connect(ctx); err != nil {
			return done, err
		}
	}
	// A server that went silent must not hold the load up for ever.
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout, errTooSlow)
	defer cancel()
	var b pgx.Batch
	b.Queue(publishSQL, u.columns(p.start)...).Exec(func(pgconn.CommandTag) error { return nil })
	refreshes, ids := u.refreshes()
	done.ids = ids
	b.Queue(p.enqueueSQL, refreshes, shorten(u.ID, 500)).Query(func(rows pgx.Rows) error {
		joined, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		for _, j := range joined {
			if j {
				done.joined++
			} else {
				done.created++
			}
		}
		return err
	})
	if err := p.conn.SendBatch(ctx, &b).Close(); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errTooSlow) {
			return done, fmt.Errorf("%w: %w", cause, err)
		}
		return done, err
	}
	return done, nil
}

var errTooSlow = errors.New("the database did not answer in time")

// columns are the arguments of publish_tariffs.
func (u Update) columns(start int64) []any {
	n := len(u.Rows)
	at, catalogs, products, prices := make([]time.Time, n), make([]string, n), make([]string, n), make([]string, n)
	for i, r := range u.Rows {
		at[i], catalogs[i], products[i], prices[i] = r.PublishedAt, r.CatalogID, r.ProductID, r.UnitPrice
	}
	return []any{u.ID, at, catalogs, products, prices, start + int64(u.Line)}
}

type refresh struct {
	CatalogID  string   `json:"catalogId"`
	ProductIDs []string `json:"productIds"`
}

// refreshes is what the update asks to be recomputed: its catalogs in order, the products of each in order of arrival and
// once, and how many that makes.
func (u Update) refreshes() (json.RawMessage, int) {
	type key struct{ catalog, product string }
	var out []refresh
	place := map[string]int{}
	seen := make(map[key]bool, len(u.Rows))
	for _, r := range u.Rows {
		if k := (key{r.CatalogID, r.ProductID}); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		i, ok := place[r.CatalogID]
		if !ok {
			i = len(out)
			place[r.CatalogID] = i
			out = append(out, refresh{CatalogID: r.CatalogID})
		}
		out[i].ProductIDs = append(out[i].ProductIDs, r.ProductID)
	}
	slices.SortFunc(out, func(a, b refresh) int { return strings.Compare(a.CatalogID, b.CatalogID) })
	data, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings in a struct: there is no way
	}
	return data, len(seen)
}

// disconnect drops the connection without waiting for a server that may be gone.
func (p *publisher) disconnect() {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p.conn.Close(ctx) //nolint:errcheck // it is given up either way
	p.conn = nil
}

// badData says whether the server refused the rows themselves: SQLSTATE classes 22 (data), 23 (constraint) and P0 (raised).
func badData(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "P0":
		return true
	}
	return false
}
