package listen

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParseHint(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          Hint
		bad           string // part of the error
	}{
		{name: "everything", payload: `{}`},
		{
			name: "all parts", payload: `{"type":"PRICE_REFRESH","tenant":"t","catalog":"uk é","due":1767225600123}`,
			want: Hint{"PRICE_REFRESH", "t", "uk é", time.UnixMilli(1767225600123)},
		},
		{name: "unknown parts", payload: `{"catalog":"uk","x":[1,{"y":null}]}`, want: Hint{Catalog: "uk"}},
		{name: "empty", payload: ``, bad: "unexpected end"},
		{name: "cut off", payload: `{`, bad: "unexpected end"},
		{name: "null", payload: `null`, bad: "want an object"},
		{name: "array", payload: `[]`, bad: "cannot unmarshal"},
		{name: "null catalog", payload: `{"catalog":null}`, bad: "want a string"},
		{name: "number for a string", payload: `{"type":1}`, bad: "want a string"},
		{name: "string for a number", payload: `{"due":"now"}`, bad: "due"},
		{name: "null due", payload: `{"due":null}`, bad: "due"},
		{name: "negative due", payload: `{"due":-1}`, bad: "due"},
		{name: "fraction", payload: `{"due":1.5}`, bad: "due"},
		{name: "beyond all calendars", payload: `{"due":99999999999999999999999}`, bad: "due"},
		{name: "two values", payload: `{} {}`, bad: "after top-level"},
		{name: "not UTF-8", payload: "{\"catalog\":\"\xff\"}", bad: "UTF-8"},
		{name: "longest", payload: strings.Repeat("[", maxPayload), bad: "unexpected end"},
		{name: "too long", payload: strings.Repeat(" ", maxPayload+1), bad: "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseHint(c.payload)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
				t.Errorf("error %v, want one with %q", err, c.bad)
			}
		})
	}
}

func FuzzParseHint(f *testing.F) {
	for _, s := range []string{``, `{`, `{}`, `{"catalog":null}`, `{"type":"a","tenant":"b","catalog":"c","due":1767225600000}`, `{"due":1e3}`, `{"DUE":0}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		h, err := ParseHint(payload)
		if err != nil {
			if h != (Hint{}) {
				t.Errorf("%q: an error and yet a hint: %+v", payload, h)
			}
			return
		}
		if len(payload) > maxPayload {
			t.Errorf("%d bytes accepted", len(payload))
		}
		// 6 bytes of an escape such as \u0041 make at most 3 of text, so what is kept is never longer than what came.
		if n := len(h.Type) + len(h.Tenant) + len(h.Catalog); n > len(payload) {
			t.Errorf("%q: keeps %d bytes of %d", payload, n, len(payload))
		}
		if !utf8.ValidString(h.Type + h.Tenant + h.Catalog) {
			t.Errorf("%q: text that is not UTF-8: %+v", payload, h)
		}
		if !h.Due.IsZero() && (h.Due.UnixMilli() < 0 || h.Due.Year() > 10000) {
			t.Errorf("%q: due %v", payload, h.Due)
		}
	})
}
