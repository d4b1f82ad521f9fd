package handler

import (
	"context"
	"encoding/json"
	"strconv"

	"notifyworker/internal/queue"
	"notifyworker/internal/webcall"
)

// HTTP hands jobs to an endpoint of the user's:
//
//	POST {"jobId": 7, "type": "csv_import", "tenantId": "…", "operatedBy": "…", "config": {…}, "attempt": 1,
//	      "maxAttempts": 20, "traceId": "…"}
//
// operatedBy and traceId are null when there are none; jobId is the Idempotency-Key's number ("job-7"), the same for every
// attempt. Redirects are not followed. The answer:
//
//	2xx             done; the body is empty, or a JSON object of at most 1 MiB that is merged into the job's result; with a
//	                non-empty array "errors" in it, the job is COMPLETED_WITH_ERRORS
//	409, 429, 503   with Retry-After (seconds or a date, at most an hour counts): not now; tried again then
//	401, 403, 404, 408, 409, 425, 429   tried again with back-off: not this job's fault
//	any other 4xx   FAILED at once: the same job would be rejected again
//	the rest        (no connection, time-out, 101, 3xx, 5xx, a body that breaks the rules): tried again with back-off
type HTTP struct{ client *webcall.Client }

// NewHTTP returns a handler, or all that is wrong with cfg at once. It connects to nothing.
func NewHTTP(cfg webcall.Config) (*HTTP, error) {
	client, err := webcall.New(cfg)
	if err != nil {
		return nil, err
	}
	return &HTTP{client: client}, nil
}

// String names the endpoint, for logs: without user, password and query.
func (h *HTTP) String() string { return h.client.URL() }

// Close ends the connections that are kept open.
func (h *HTTP) Close() { h.client.Close() }

type request struct {
	JobID       int64           `json:"jobId"`
	Type        string          `json:"type"`
	TenantID    string          `json:"tenantId"`
	OperatedBy  *string         `json:"operatedBy"`
	Config      json.RawMessage `json:"config"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"maxAttempts"`
	TraceID     *string         `json:"traceId"`
}

// Handle posts the job and reads what the answer means.
func (h *HTTP) Handle(ctx context.Context, j queue.Job) queue.Outcome {
	result, err := h.client.Post(ctx, "job-"+strconv.FormatInt(j.ID, 10), j.TraceID, request{
		JobID: j.ID, Type: j.Type, TenantID: j.TenantID, OperatedBy: orNull(j.OperatedBy), Config: j.Config,
		Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, TraceID: orNull(j.TraceID),
	})
	if err == nil {
		return done(result)
	}
	if ctx.Err() != nil {
		return stopped(ctx, err)
	}
	if e := webcall.As(err); e != nil {
		switch e.Kind {
		case webcall.Later:
			return queue.Outcome{Kind: queue.Refused, Err: err, Delay: e.Delay}
		case webcall.Rejected:
			return queue.Outcome{Kind: queue.Permanent, Err: err}
		}
	}
	return queue.Outcome{Kind: queue.Failed, Err: err}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
