package engine

import (
	"context"
	"encoding/json"
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
	Timeout time.Duration // of a call, whatever the pool's sessions allow; 0 means one minute
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
	var ids []json.RawMessage
	err = limited(ctx, p.Pool, orDefault(p.Timeout, time.Minute), func(b *pgx.Batch) {
		b.Queue(`SELECT to_jsonb(l.id)::text FROM `+f.name+`($1) l(id) WHERE l.id IS NOT NULL`, catalogID).Query(func(rows pgx.Rows) error {
			seen := map[string]bool{}
			var id []byte
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
				if !seen[string(id)] {
					seen[string(id)] = true
					ids = append(ids, json.RawMessage(string(id)))
				}
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list catalog %s: %w", catalogID, err)
	}
	return ids, nil
}
