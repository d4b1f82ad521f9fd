package engine

import (
	"context"
	"encoding/json"

	"notifyworker/internal/webcall"
)

// HTTPEndpoint is a Recomputer that posts each chunk to an endpoint of the user's:
//
//	{"refreshId": 7, "tenantId": "…", "catalogId": "…", "full": false, "chunk": 0, "productIds": ["p1", 2], "traceId": "…"}
//
// chunk counts from 0; productIds is null where the whole catalog is meant. The headers Idempotency-Key, the same for every
// try of a chunk, and Traceparent come along. Redirects are not followed. The answer:
//
//	2xx             done; the body is empty or {"recomputed": n, "failed": [{"id": …, "error": "…"}]}, at most 1 MiB
//	409, 429, 503   with Retry-After (seconds or a date): not now; tried again then, without counting as a failure
//	400, 413, 422   and every 4xx not named here: the chunk is rejected; tried again a few times, then in parts, so that
//	                only the products that are rejected alone end in the dead letter
//	500, time-out   tried again with growing delays; in between in halves, in case one product is the cause
//	the rest        (no connection, 101, 401, 403, 404, 408, 409, 425, 429, other 5xx, 3xx): tried again with growing delays
type HTTPEndpoint struct{ client *webcall.Client }

// NewHTTPEndpoint returns a Recomputer, or all that is wrong with cfg at once. It connects to nothing.
func NewHTTPEndpoint(cfg webcall.Config) (*HTTPEndpoint, error) {
	client, err := webcall.New(cfg)
	if err != nil {
		return nil, err
	}
	return &HTTPEndpoint{client: client}, nil
}

// String names the endpoint, for logs: without user, password and query.
func (h *HTTPEndpoint) String() string { return h.client.URL() }

// Close ends the connections that are kept open.
func (h *HTTPEndpoint) Close() { h.client.Close() }

type request struct {
	RefreshID  int64             `json:"refreshId"`
	TenantID   string            `json:"tenantId"`
	CatalogID  string            `json:"catalogId"`
	Full       bool              `json:"full"`
	Chunk      int               `json:"chunk"`
	ProductIDs []json.RawMessage `json:"productIds"`
	TraceID    *string           `json:"traceId"`
}

// Recompute posts the chunk.
func (h *HTTPEndpoint) Recompute(ctx context.Context, c Chunk) (n int64, failed []FailedID, err error) {
	body := request{RefreshID: c.ID, TenantID: c.TenantID, CatalogID: c.CatalogID, Full: c.Full, Chunk: c.Number, ProductIDs: c.ProductIDs}
	if c.TraceID != "" {
		body.TraceID = &c.TraceID
	}
	answer, err := h.client.Post(ctx, c.Key(), c.TraceID, body)
	if err != nil {
		return 0, nil, err
	}
	n, failed, err = readAnswer(answer, c)
	if err != nil {
		return 0, nil, &webcall.Error{Kind: webcall.BadAnswer, Err: err}
	}
	return n, failed, nil
}
