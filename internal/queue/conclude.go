package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Completion ends a job well.
type Completion struct {
	ID         int64
	Token      string
	WithErrors bool            // some items failed: COMPLETED_WITH_ERRORS
	Result     json.RawMessage // a JSON object, merged into result; nil for none
}

// Completions tells the fate of each Completion: every id is in exactly one of the lists.
type Completions struct {
	Done []int64
	Lost []int64 // no longer running under its token: nothing was written
	Busy []int64 // somebody holds the row's lock: nothing was written, try again a little later
}

// Complete ends many jobs in one statement and one commit. It never waits for a row that somebody has locked. A repeated
// call after an error whose commit went through reports those jobs as lost.
func (s *Store) Complete(ctx context.Context, cs []Completion) (Completions, error) {
	if len(cs) == 0 {
		return Completions{}, nil
	}
	ctx, end := s.bound(ctx)
	defer end()
	ids, tokens := make([]int64, len(cs)), make([]string, len(cs))
	withErrors, results := make([]bool, len(cs)), make([]string, len(cs))
	for i, c := range cs {
		ids[i], tokens[i], withErrors[i], results[i] = c.ID, c.Token, c.WithErrors, object(c.Result)
	}
	done, err := s.collect(ctx, s.sql.complete, ids, tokens, withErrors, results)
	if err != nil {
		return Completions{}, fmt.Errorf("complete %d jobs: %w", len(cs), err)
	}
	busy, lost, err := s.sort(ctx, ids, tokens, done)
	if err != nil { // those that are done are; of the others the next call will know
		for _, id := range ids {
			if !slices.Contains(done, id) {
				busy = append(busy, id)
			}
		}
	}
	return Completions{Done: done, Lost: lost, Busy: busy}, nil
}

// sort tells, of the jobs that a statement passed over, which are still ours (their row was locked) and which are lost.
func (s *Store) sort(ctx context.Context, ids []int64, tokens []string, done []int64) (busy, lost []int64, err error) {
	if len(done) == len(ids) {
		return nil, nil, nil
	}
	is := make(map[int64]bool, len(done))
	for _, id := range done {
		is[id] = true
	}
	var restIDs []int64
	var restTokens []string
	for i, id := range ids {
		if !is[id] {
			restIDs, restTokens = append(restIDs, id), append(restTokens, tokens[i])
		}
	}
	if busy, err = s.collect(ctx, s.sql.held, restIDs, restTokens); err != nil {
		return nil, nil, err
	}
	for _, id := range busy {
		is[id] = true
	}
	for _, id := range restIDs {
		if !is[id] {
			lost = append(lost, id)
		}
	}
	return busy, lost, nil
}

// Progress merges a JSON object into the result of a running job. It returns ErrLost when the token is no longer ours.
func (s *Store) Progress(ctx context.Context, id int64, token string, result json.RawMessage) error {
	ctx, done := s.bound(ctx)
	defer done()
	var held bool
	if err := s.cfg.DB.QueryRow(ctx, s.sql.progress, id, token, object(result)).Scan(&held); err != nil {
		return fmt.Errorf("progress of job %d: %w", id, err)
	}
	if !held {
		return fmt.Errorf("progress of job %d: %w", id, ErrLost)
	}
	return nil
}

// Held is a reservation to be kept.
type Held struct {
	ID    int64
	Token string
	Type  string // its lease is the type's
}

// Extend is the heartbeat: it extends the leases of all jobs held in one statement, and returns those that are lost, and those that
// are still held but could not be extended, since somebody has locked their rows.
func (s *Store) Extend(ctx context.Context, held []Held) (lost, busy []int64, err error) {
	if len(held) == 0 {
		return nil, nil, nil
	}
	ctx, end := s.bound(ctx)
	defer end()
	ids, tokens, leases := make([]int64, len(held)), make([]string, len(held)), make([]int64, len(held))
	for i, h := range held {
		ids[i], tokens[i], leases[i] = h.ID, h.Token, s.Settings(h.Type).Lease.Milliseconds()
	}
	done, err := s.collect(ctx, s.sql.extend, ids, tokens, leases)
	if err != nil {
		return nil, nil, fmt.Errorf("extend %d leases: %w", len(held), err)
	}
	if busy, lost, err = s.sort(ctx, ids, tokens, done); err != nil {
		return nil, nil, fmt.Errorf("extend %d leases: %w", len(held), err)
	}
	return lost, busy, nil
}

func object(j json.RawMessage) string {
	if len(j) == 0 {
		return "{}"
	}
	return string(j)
}
