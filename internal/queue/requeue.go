package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Cause is why a job goes through the door back to PENDING.
type Cause string

// The causes, as the SQL function requeue knows them.
const (
	CauseRefused   Cause = "refused"   // the handler says "not now"; counts as an attempt
	CauseFailed    Cause = "failed"    // the attempt failed
	CausePermanent Cause = "permanent" // another attempt would fail too: FAILED at once
	CauseReleased  Cause = "released"  // given back at shutdown: costs no attempt
	causeRescued   Cause = "rescued"
)

// Verdict is what the door made of a job.
type Verdict string

// The verdicts of the SQL function requeue.
const (
	Requeued Verdict = "requeued" // PENDING again
	Merged   Verdict = "merged"   // its ids joined the waiting job of its catalog; COMPLETED with mergedIntoJobId
	Dead     Verdict = "dead"     // FAILED with its ids kept: the attempt limit, or a permanent failure
	Busy     Verdict = "busy"     // somebody holds the row's lock: nothing was written, try again
	Gone     Verdict = "lost"     // not ours any more: nothing was written
)

// Return asks for a job to go back.
type Return struct {
	ID    int64
	Token string
	Cause Cause
	Err   string          // why, kept in the row's error; at most 8,000 characters of it
	Note  json.RawMessage // a JSON object, merged into result; nil for none
	Delay time.Duration   // back-off
	Limit int             // attempt limit where it is below the row's own; 0 for none
}

// Returned is what became of it.
type Returned struct {
	Verdict    Verdict
	MergedInto int64 // the waiting job, for Merged; 0 while that is not known yet
}

// Requeue returns a job to PENDING, merges it into the job that waits for its catalog, or ends it as a dead letter. It
// never waits for anybody's open transaction and never raises a unique violation. One call is one commit.
func (s *Store) Requeue(ctx context.Context, r Return) (Returned, error) {
	ctx, done := s.bound(ctx)
	defer done()
	return s.requeue(ctx, r)
}

func (s *Store) requeue(ctx context.Context, r Return) (Returned, error) {
	var token *string
	if r.Token != "" {
		token = &r.Token
	}
	var out Returned
	var into *int64
	err := s.cfg.DB.QueryRow(ctx, s.sql.requeue, r.ID, string(r.Cause), token, r.Err, object(r.Note), r.Delay.Milliseconds(), r.Limit).
		Scan(&out.Verdict, &into)
	if err != nil {
		return Returned{}, fmt.Errorf("requeue job %d (%s): %w", r.ID, r.Cause, err)
	}
	out.MergedInto = deref(into)
	return out, nil
}
