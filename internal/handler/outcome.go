package handler

import (
	"context"
	"encoding/json"
	"errors"

	"notifyworker/internal/queue"
)

// done is the outcome of work that was done; result is a JSON object, or empty.
func done(result json.RawMessage) queue.Outcome {
	out := queue.Outcome{Kind: queue.Completed, Result: result}
	// The key as it is spelt: a struct would take "Errors" for it. Anything but an array there is the user's own affair.
	var keys map[string]json.RawMessage
	var errs []json.RawMessage
	if json.Unmarshal(result, &keys) == nil && json.Unmarshal(keys["errors"], &errs) == nil && len(errs) > 0 {
		out.Kind = queue.CompletedWithErrors
	}
	return out
}

// stopped is the outcome of work that was cut off: the token was lost, or the worker's end or the type's time-out came,
// which the worker knows about.
func stopped(ctx context.Context, err error) queue.Outcome {
	if errors.Is(context.Cause(ctx), queue.ErrLost) {
		return queue.Outcome{Kind: queue.Lost, Err: queue.ErrLost}
	}
	return queue.Outcome{Kind: queue.Failed, Err: err}
}
