package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Refresh is what a job asked for and the engine accepted.
type Refresh struct {
	ID         int64
	JobID      int64
	TenantID   string // UUID
	CatalogID  string
	Full       bool   // the whole catalog
	TraceID    string // "" when there is none
	OperatedBy string // UUID, "" when nobody said
}

// Chunk is what one call of a Recomputer recomputes.
type Chunk struct {
	Refresh
	Number     int               // of the chunk within the refresh, from 0
	Offset     int               // of the first id within the refresh
	ProductIDs []json.RawMessage // JSON strings and numbers; nil means the whole catalog
	Part       bool              // a part of a chunk that failed as a whole
}

// Key says which calls are the same call: it is the same for every retry of a chunk, and another for a part of it.
func (c Chunk) Key() string {
	if c.Part {
		return fmt.Sprintf("refresh-%d-%d+%d", c.ID, c.Offset, len(c.ProductIDs))
	}
	return fmt.Sprintf("refresh-%d-%d", c.ID, c.Offset)
}

// FailedID is a product that could not be recomputed.
type FailedID struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error,omitempty"`
}

// Recomputer computes the prices of products from whatever they depend on. It may be called more than once for the same
// chunk, and must read what it depends on anew each time.
//
// n is how many prices it has recomputed. failed are the products that it knows it can't recompute: they are not tried
// again but end in the dead letter. err is that the call failed as a whole; it is tried again, see Patience.
type Recomputer interface {
	Recompute(ctx context.Context, c Chunk) (n int64, failed []FailedID, err error)
}

// transactional is a Recomputer whose effects and the engine's progress can be one commit.
type transactional interface {
	// shares says whether recomputeIn may be used.
	shares() bool
	// recomputeIn recomputes and writes what w says. It returns ErrRefreshLost, and nothing is recomputed, when w.token is not
	// the refresh's any more.
	recomputeIn(ctx context.Context, c Chunk, w writing) (written, error)
}

// writing is what is written together with a recomputed chunk.
type writing struct {
	schema  string
	token   string
	leaseMS int
	done    int  // ids dealt with afterwards, from the first on
	last    bool // release the refresh instead
}

// written is what became of it.
type written struct {
	n      int64
	failed []FailedID
	released
}

// released is what a release left behind.
type released struct {
	deadLetterID int64 // 0 when nothing had failed
	waiters      int   // jobs that were refused because of the refresh
}

const maxReason = 500 // bytes of a reason why a product failed

// answer is what a recomputation may say: {"recomputed": n, "failed": [{"id": …, "error": "…"}]}, every field optional.
type answer struct {
	Recomputed *int64     `json:"recomputed"`
	Failed     []FailedID `json:"failed"`
}

// readAnswer reads what a recomputation says of a chunk. Only ids of the chunk can have failed, each once. They are compared
// as text: who was given 7 may say that "7" failed. An answer that names another id is an error, since the product that it is
// about would pass for recomputed. Of a whole catalog nobody here knows the ids: there whatever is named has failed.
func readAnswer(text json.RawMessage, c Chunk) (n int64, failed []FailedID, err error) {
	var a answer
	if len(text) > 0 {
		if err := json.Unmarshal(text, &a); err != nil {
			return 0, nil, fmt.Errorf(`the answer is not {"recomputed": n, "failed": [{"id": …, "error": "…"}]}: %w`, err)
		}
	}
	if err := knowsIDs(a.Failed, c.ProductIDs); err != nil {
		return 0, nil, err
	}
	if c.ProductIDs == nil {
		named := map[string]bool{}
		for _, f := range a.Failed {
			if !named[string(f.ID)] {
				named[string(f.ID)] = true
				failed = append(failed, FailedID{ID: f.ID, Error: reason(f.Error)})
			}
		}
	} else if len(a.Failed) > 0 {
		reasons := make(map[string]string, len(a.Failed))
		for _, f := range a.Failed {
			if _, told := reasons[plain(f.ID)]; !told {
				reasons[plain(f.ID)] = reason(f.Error)
			}
		}
		for _, id := range c.ProductIDs {
			if why, ok := reasons[plain(id)]; ok {
				failed = append(failed, FailedID{ID: id, Error: why})
			}
		}
	}
	if a.Recomputed == nil {
		return int64(max(len(c.ProductIDs)-len(failed), 0)), failed, nil
	}
	return max(*a.Recomputed, 0), failed, nil
}

// knowsIDs says that each id that has failed is one, and one of those that were asked for unless these are nil.
func knowsIDs(failed []FailedID, asked []json.RawMessage) error {
	if len(failed) == 0 {
		return nil
	}
	known := make(map[string]bool, len(asked))
	for _, id := range asked {
		known[plain(id)] = true
	}
	for _, f := range failed {
		switch {
		case !isID(f.ID):
			return errors.New(`the answer has an entry of "failed" without an "id" that is a string or a number`)
		case asked != nil && !known[plain(f.ID)]:
			return fmt.Errorf("the answer says that %s failed, which was not asked for: name ids as they were sent", reason(string(f.ID)))
		}
	}
	return nil
}

// isID says whether a valid JSON value is a string or a number.
func isID(v json.RawMessage) bool {
	return len(v) > 0 && strings.IndexByte(`"-0123456789`, v[0]) >= 0
}

// plain is an id's text: a string without quotes and escapes, a number with its digits.
func plain(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return s
	}
	return string(id)
}

// reason makes a text one that jsonb takes, of at most maxReason bytes and never empty.
func reason(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	if s == "" {
		return "no reason given"
	}
	if len(s) <= maxReason {
		return s
	}
	cut := maxReason
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
