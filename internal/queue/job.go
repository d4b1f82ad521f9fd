package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// TypePriceRefresh is the job type of which at most one waits per tenant and catalog; product ids join the waiting one.
const TypePriceRefresh = "PRICE_REFRESH"

// DefaultTenant is the tenant of users who have only one.
const DefaultTenant = "00000000-0000-0000-0000-000000000000"

// Job is one reservation: a row of jobs together with the token that allows this process to conclude it.
type Job struct {
	ID           int64
	TenantID     string // UUID
	Type         string
	OperatedBy   string // UUID of who asked, "" when nobody said
	TraceID      string // "" when there is none
	CatalogID    string // config's catalogId, "" when there is none
	ProductCount int    // length of config's productIds, 0 when there is none
	Config       json.RawMessage
	Token        string // UUID, the lock token of this reservation
	Attempt      int    // reservations so far, this one included: 1 at the first
	MaxAttempts  int
	CreatedAt    time.Time // the database's clock, like all times here
	RunAfter     time.Time
	StartedAt    time.Time
	LeaseUntil   time.Time
}

// PriceRefreshConfig is the config of a PRICE_REFRESH. Ids keep their JSON text: 1 and "1" differ, and a number beyond 2^53
// stays exact.
type PriceRefreshConfig struct {
	CatalogID  string            `json:"catalogId"`
	ProductIDs []json.RawMessage `json:"productIds"`
	Full       bool              `json:"full,omitempty"`
}

// UnmarshalJSON reads the three keys as they are spelt, as SQL does. encoding/json alone would take a caller's own
// "productids" beside them for product ids, and forget the others.
func (c *PriceRefreshConfig) UnmarshalJSON(b []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	*c = PriceRefreshConfig{}
	for key, to := range map[string]any{"catalogId": &c.CatalogID, "productIds": &c.ProductIDs, "full": &c.Full} {
		if v, ok := keys[key]; ok {
			if err := json.Unmarshal(v, to); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

// Handler works jobs of one or more types. Handle may be called more than once for the same job (a worker may die after
// the work and before the conclusion), so what it does must be idempotent.
type Handler interface {
	Handle(ctx context.Context, j Job) Outcome
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, j Job) Outcome

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, j Job) Outcome { return f(ctx, j) }
