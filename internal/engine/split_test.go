package engine

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"notifyworker/internal/webcall"
)

// scripted is a Recomputer whose calls fail with these errors, one after the other; then they succeed.
type scripted struct {
	errs  []error
	calls int
}

func (s *scripted) Recompute(_ context.Context, c Chunk) (int64, []FailedID, error) {
	s.calls++
	if s.calls <= len(s.errs) {
		return 0, nil, s.errs[s.calls-1]
	}
	return int64(len(c.ProductIDs)), nil, nil
}

// splitting is an engine without a database, a refresh that has tried so many parts, and a chunk of four products.
func splitting(s *scripted, parts int) (*Engine, *refresh, Chunk) {
	e := &Engine{cfg: Config{Recompute: s, Patience: Patience{First: time.Millisecond, Cap: time.Millisecond}}.withDefaults()}
	r := &refresh{parts: parts, leaseUntil: time.Now().Add(time.Hour)}
	return e, r, Chunk{ProductIDs: []json.RawMessage{[]byte(`"p1"`), []byte(`"p2"`), []byte(`"p3"`), []byte(`"p4"`)}}
}

var errSuspect = errors.New("it may be the products' fault")

// Whose fault it is stays open then: nothing is given up because of it.
func TestAProbeOfARefreshThatHasUsedUpItsPartsFindsNothing(t *testing.T) {
	for _, parts := range []int{maxPartsRefresh - 1, maxPartsRefresh} {
		for name, errs := range map[string][]error{"halves that succeed": nil, "halves that fail": {errSuspect, errSuspect}} {
			s := &scripted{errs: errs}
			e, r, c := splitting(s, parts)
			found, err := e.probe(t.Context(), r, nil, c, 4, true, errSuspect)
			if found || err != nil || s.calls != 0 {
				t.Errorf("%s, after %d parts: found %v, %v, in %d calls", name, parts, found, err, s.calls)
			}
		}
	}
	s := &scripted{errs: []error{errSuspect, errSuspect}}
	e, r, c := splitting(s, maxPartsRefresh-2)
	if found, err := e.probe(t.Context(), r, nil, c, 4, true, errSuspect); found || err != nil || s.calls != 2 {
		t.Errorf("with two parts left: found %v, %v, in %d calls", found, err, s.calls)
	}
}

// An endpoint that is away, or says "not now", is asked again and again: that must not use up the parts by which bad products
// are found.
func TestAPartThatIsWaitedForCountsOnce(t *testing.T) {
	later := &webcall.Error{Kind: webcall.Later, Delay: time.Millisecond, Err: errors.New("later")}
	away := &webcall.Error{Kind: webcall.Unavailable, Err: errors.New("away")}
	s := &scripted{errs: []error{later, away, later, later, away}}
	e, r, c := splitting(s, 0)
	n, _, err := e.part(t.Context(), r, nil, c, false)
	if n != 4 || err != nil || s.calls != 6 || r.parts != 1 {
		t.Errorf("%d recomputed, %v, in %d calls, which count as %d", n, err, s.calls, r.parts)
	}
}
