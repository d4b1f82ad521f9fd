package webcall

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRetryAfterIsReadOrMissing(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
		missing     bool
	}{
		{value: "", missing: true},
		{value: "0", want: 0},
		{value: "7", want: 7 * time.Second},
		{value: " 007\t", want: 7 * time.Second},
		{value: "3600", want: time.Hour},
		{value: "3601", want: time.Hour},
		{value: "9223372036854775807", want: time.Hour},
		{value: "9223372036854775808", want: time.Hour},
		{value: strings.Repeat("9", 4000), want: time.Hour},
		{value: "-1", missing: true},
		{value: "+1", missing: true},
		{value: "1.5", missing: true},
		{value: "1e3", missing: true},
		{value: "NaN", missing: true},
		{value: "soon", missing: true},
		{value: "٣", missing: true}, // a digit, but not of HTTP's
		{value: "Fri, 01 May 2026 12:00:09 GMT", want: 9 * time.Second},
		{value: "Fri, 01 May 2026 11:00:09 GMT", want: 0},
		{value: "Fri, 31 Dec 9999 23:59:59 GMT", want: time.Hour},
		{value: "Fri, 01 May 2026 12:00:09 GMT", date: "Fri, 01 May 2026 12:00:00 GMT", want: 9 * time.Second},
		{value: "Fri, 01 May 2026 12:00:09 GMT", date: "yesterday", want: 9 * time.Second},
	} {
		h := http.Header{"Retry-After": {c.value}, "Date": {c.date}}
		if got, ok := retryAfter(h, now); got != c.want || ok == c.missing {
			t.Errorf("Retry-After %.40q, Date %q: %v, %v; want %v, %v", c.value, c.date, got, ok, c.want, !c.missing)
		}
	}
}

// FuzzRetryAfter: whatever an endpoint says, the wait is at most an hour.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "7", "99999999999999999999", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(s, s)
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		d, ok := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if d < 0 || d > time.Hour || !ok && d != 0 {
			t.Errorf("%q, %q: %v, %v", value, date, d, ok)
		}
	})
}

// FuzzTraceparent: whatever a caller has written into trace_id, the header is a traceparent and nothing else.
func FuzzTraceparent(f *testing.F) {
	for _, s := range []string{"", "0af7651916cd43dd8448eb211c80319c", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a\r\nX: y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, trace string) {
		if got := Traceparent(trace); traceparentForm.FindString(got) != got || got == "" {
			t.Errorf("%q became %q", trace, got)
		}
	})
}
