package engine

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"notifyworker/internal/webcall"
)

// FuzzReadAnswer: whatever a recomputation answers, only ids of the chunk have failed, each once and with a reason, and no
// count is negative.
func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"recomputed": 3}`, `{"recomputed": -1}`, `{"recomputed": 1e3}`, `{"recomputed": 9223372036854775807}`, `{"recomputed": 1e999}`,
		`{"failed": [{"id": "p1", "error": "no"}, {"id": "p1"}, {"id": 2}, {"id": "3"}, {"id": null}, {}]}`, `{"failed": null}`, `{"failed": [1]}`,
		`{"failed": [{"id": "é", "error": "\u0000\ud800"}]}`, `{"failed": [{"id": {"a": 1}, "error": ""}]}`, `{"Failed": [], "RECOMPUTED": 2}`,
	} {
		f.Add([]byte(s))
	}
	c := Chunk{ProductIDs: []json.RawMessage{
		json.RawMessage(`"p1"`), json.RawMessage(`2`), json.RawMessage(`"3"`), json.RawMessage(`"é"`), json.RawMessage(`9007199254740993`),
	}}
	chunk := map[string]bool{}
	for _, id := range c.ProductIDs {
		chunk[string(id)] = true
	}
	whole := Chunk{Refresh: Refresh{Full: true}}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := webcall.Storable(body) // what reaches readAnswer has come through here
		if err != nil {
			return
		}
		if _, failed, err := readAnswer(answer, whole); err == nil {
			for _, id := range failed {
				if !isID(id.ID) {
					t.Errorf("%q: failed %s", body, id.ID)
				}
			}
		}
		n, failed, err := readAnswer(answer, c)
		if err != nil {
			if n != 0 || failed != nil {
				t.Errorf("%q: an error and yet %d, %v", body, n, failed)
			}
			return
		}
		if n < 0 {
			t.Errorf("%q: %d recomputed", body, n)
		}
		seen := map[string]bool{}
		for _, id := range failed {
			if !chunk[string(id.ID)] || seen[string(id.ID)] || id.Error == "" || len(id.Error) > maxReason+len("…") || !utf8.ValidString(id.Error) {
				t.Errorf("%q: failed %s because of %q", body, id.ID, id.Error)
			}
			seen[string(id.ID)] = true
		}
		if text := failures(failed); !json.Valid([]byte(text)) {
			t.Errorf("%q: %s", body, text)
		}
	})
}
