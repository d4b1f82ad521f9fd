package listen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxPayload is the longest payload that a server can send: NOTIFY's limit is 8000 bytes, the terminating zero included.
const maxPayload = 7999

// SeatsMoved is a payload that tells of no work: seats have changed hands, so whoever listens asks anew who else does. Only
// exactly these bytes are it. Whoever does not know it takes it for a hint without parts, and looks once.
const SeatsMoved = `{"seats":"moved"}`

// ManyCommits is a payload that tells of a job like any other, and that it could not be handed over since many commits were about that
// already. Only exactly these bytes are it. Whoever does not know it takes it for a hint without parts, and looks once.
const ManyCommits = `{"commits":"many"}`

// dueKey is in every payload of ours that tells a due time. One that spells it in another way is looked for at once.
const dueKey = `"due"`

// Hint is what a payload says about where to look. Whoever may connect may send one, so it is never trusted: it can make us
// look in vain, nothing else. The zero Hint means "look at everything".
type Hint struct {
	Type    string    // job type, "" for any
	Tenant  string    // "" for any
	Catalog string    // "" for any
	Due     time.Time // by the database's clock, to the millisecond; zero: now
}

// ParseHint reads a payload such as {"type":"PRICE_REFRESH","tenant":"…","catalog":"uk","due":1767225600000}. Every part may
// be missing, unknown ones are passed over. The error says why a payload can't be read; then look at everything.
func ParseHint(payload string) (Hint, error) {
	if len(payload) > maxPayload {
		return Hint{}, fmt.Errorf("payload of %d bytes: the limit is %d", len(payload), maxPayload)
	}
	if !utf8.ValidString(payload) {
		return Hint{}, errors.New("payload is not UTF-8")
	}
	var p *struct {
		Type    text   `json:"type"`
		Tenant  text   `json:"tenant"`
		Catalog text   `json:"catalog"`
		Due     millis `json:"due"`
	}
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return Hint{}, fmt.Errorf("payload: %w", err)
	}
	if p == nil {
		return Hint{}, errors.New("payload is null, want an object")
	}
	return Hint{Type: string(p.Type), Tenant: string(p.Tenant), Catalog: string(p.Catalog), Due: time.Time(p.Due)}, nil
}

// text is a JSON string; unlike a plain Go string it refuses null.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return errors.New("want a string")
	}
	return json.Unmarshal(b, (*string)(t))
}

// millis is a whole number of milliseconds since 1970.
type millis time.Time

// maxMillis is the end of the year 9999, in milliseconds.
const maxMillis = 253_402_300_799_999

func (m *millis) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil || n < 0 || n > maxMillis {
		return errors.New("due: want milliseconds since 1970")
	}
	*m = millis(time.UnixMilli(n))
	return nil
}
