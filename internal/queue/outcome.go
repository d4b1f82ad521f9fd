package queue

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Kind is what became of a reservation.
type Kind int

// The kinds of outcome. Completed is the zero value.
const (
	Completed           Kind = iota
	CompletedWithErrors      // done, but some items failed: result says which
	Refused                  // "not now": back to PENDING, or merged
	Failed                   // tried and failed: back to PENDING with back-off, FAILED at the attempt limit
	Permanent                // failed, and another try would too: FAILED at once
	Concluded                // the handler's own transaction has concluded the job already
	Lost                     // the token is no longer ours: nothing may be written
	Released                 // given back unstarted or unfinished at shutdown: costs no attempt
)

var kindNames = [...]string{"completed", "completed_with_errors", "refused", "failed", "permanent", "concluded", "lost", "released"}

// String is the name that logs and metrics use.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// Outcome is what a handler says of a job. Exactly one conclusion is made of it.
type Outcome struct {
	Kind   Kind
	Result json.RawMessage // a JSON object, merged into result at the top level; nil for none
	Err    error           // why, for Refused, Failed and Permanent
	Delay  time.Duration   // Refused and Failed: when to try again; 0 means by the type's back-off
	Note   string          // for logs: what Concluded was, such as "accepted"
}

// ErrLost says that a job is no longer RUNNING under the caller's token: somebody rescued, cancelled or concluded it, and
// nothing was written.
var ErrLost = errors.New("the reservation is lost: the job is no longer running under this token")

// Progress merges a JSON object into the result of a RUNNING job. It returns ErrLost when the token is no longer ours.
type Progress func(ctx context.Context, result json.RawMessage) error

type progressKey struct{}

// WithProgress gives a handler's context the way to report progress.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressFrom returns the way to report progress; outside a worker it is one that does nothing.
func ProgressFrom(ctx context.Context) Progress {
	if p, ok := ctx.Value(progressKey{}).(Progress); ok {
		return p
	}
	return func(context.Context, json.RawMessage) error { return nil }
}
