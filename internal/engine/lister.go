package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Lister lists a catalog, so that a full refresh can run in chunks.
type Lister interface {
	List(ctx context.Context, tenantID, catalogID string) ([]json.RawMessage, error)
}

// SQLProducts is a Lister that calls a SQL function of the user's: name(catalog_id text) returning a set of text, integer,
// bigint or uuid.
type SQLProducts struct {
	Name    string
	Pool    *pgxpool.Pool
	Timeout time.Duration // 0 means one minute
}

// Check says whether the function exists in that shape.
func (p *SQLProducts) Check(ctx context.Context) error {
	_, err := lookUp(ctx, p.Pool, p.Name, listerSignatures)
	return err
}

// List returns the catalog's products, each once: numbers where the function returns numbers, else strings.
func (p *SQLProducts) List(ctx context.Context, _, catalogID string) ([]json.RawMessage, error) {
	f, err := lookUp(ctx, p.Pool, p.Name, listerSignatures)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, orDefault(p.Timeout, time.Minute))
	defer done()
	rows, err := p.Pool.Query(ctx, `SELECT to_jsonb(l.id)::text FROM `+f.name+`($1) l(id) WHERE l.id IS NOT NULL`, catalogID)
	if err != nil {
		return nil, fmt.Errorf("list catalog %s: %w", catalogID, err)
	}
	seen := map[string]bool{}
	ids, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (json.RawMessage, error) {
		var id []byte
		if err := row.Scan(&id); err != nil || seen[string(id)] {
			return nil, errors.Join(err)
		}
		seen[string(id)] = true
		return id, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list catalog %s: %w", catalogID, err)
	}
	out := ids[:0]
	for _, id := range ids {
		if id != nil {
			out = append(out, id)
		}
	}
	return out, nil
}
