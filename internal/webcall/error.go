package webcall

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Kind is what a failed call means.
type Kind int

// The kinds of failure.
const (
	Unavailable Kind = iota // no connection, or a status that says nothing of the request: it may work later
	Later                   // 409, 429 or 503 with Retry-After: not now, come back after Delay
	Rejected                // another 4xx: the same request would be rejected again
	Broken                  // 500: trouble there, of the service or with this request
	TimedOut                // no answer in time
	BadAnswer               // 2xx with a body that breaks the rules
)

// Error is a call that failed.
type Error struct {
	Kind   Kind
	Status int           // 0 when there was no answer
	Delay  time.Duration // for Later
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// As returns the *Error in err, or nil.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// kindOf is what a status other than 2xx means, Retry-After aside.
func kindOf(status int) Kind {
	switch status {
	case http.StatusInternalServerError:
		return Broken
	// Not the request's fault, or an operator's to mend: credentials, the URL, the moment.
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return Unavailable
	}
	if status/100 == 4 {
		return Rejected
	}
	return Unavailable
}

func (c *Client) refused(res *http.Response, body []byte) *Error {
	e := &Error{Kind: kindOf(res.StatusCode), Status: res.StatusCode}
	said := quote(body)
	switch res.StatusCode {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if d, ok := retryAfter(res.Header, time.Now()); ok {
			e.Kind, e.Delay = Later, d
			e.Err = fmt.Errorf("%s answered %s: try again in %v%s", c.shown, status(res.StatusCode), d, said)
			return e
		}
	}
	if res.StatusCode/100 == 3 {
		e.Err = fmt.Errorf("%s answered %s: redirects are not followed, configure the final URL", c.shown, status(res.StatusCode))
		return e
	}
	e.Err = fmt.Errorf("%s answered %s%s", c.shown, status(res.StatusCode), said)
	return e
}

func status(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}

// quote is the start of a body on one line, for an error.
func quote(body []byte) string {
	cut := len(body) > maxQuoted
	if cut {
		body = body[:maxQuoted]
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		} else if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(bytes.TrimSpace(body)), ""))
	if text == "" {
		return ""
	}
	if cut {
		text += "…"
	}
	return ": " + text
}

const maxRetryAfter = time.Hour

// retryAfter reads Retry-After: seconds, or a date, which is compared with the answer's own Date where it has one, so that
// clocks that differ do no harm. At most an hour; a time that has passed is now.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || n > uint64(maxRetryAfter/time.Second) { // more digits than a number has are a long time, too
			return maxRetryAfter, true
		}
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}
