package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifyworker/internal/observe"
)

// reader turns settings from text into values and gathers all that is wrong with them, so that whoever configures is told
// once. An empty text means the default.
type reader struct{ errs []error }

func (r *reader) fail(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s "+format, append([]any{name}, args...)...))
}

func (r *reader) err() error { return errors.Join(r.errs...) }

func (r *reader) integer(name, text string, standard, least, most int) int {
	text = strings.ReplaceAll(strings.TrimSpace(text), "_", "")
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.fail(name, "is %q: give a whole number from %d to %d", text, least, most)
		return standard
	}
	if n < least || n > most {
		r.fail(name, "is %d: give a number from %d to %d", n, least, most)
		return standard
	}
	return n
}

func (r *reader) duration(name, text string, standard, least, most time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return standard
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, number := strconv.ParseFloat(text, 64); number == nil {
			r.fail(name, "is %q: give it a unit, such as %ss or %sms", text, text, text)
		} else {
			r.fail(name, "is %q: give a duration such as 500ms, 30s or 5m", text)
		}
		return standard
	}
	if d < least || d > most {
		r.fail(name, "is %v: give %v to %v", d, least, most)
		return standard
	}
	return d
}

// age is how old something must be to be removed: a duration, or a number of days such as 7d; off, and 0, are never.
func (r *reader) age(name, text string, standard time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	const least, most = time.Minute, 10 * 365 * 24 * time.Hour
	var d time.Duration
	days, isDays := strings.CutSuffix(text, "d")
	n, err := strconv.Atoi(days)
	switch {
	case text == "":
		return standard
	case text == "off" || text == "0":
		return 0
	case isDays && err == nil && n >= 0 && n <= int(most/(24*time.Hour)):
		d = time.Duration(n) * 24 * time.Hour
	default:
		if d, err = time.ParseDuration(text); err != nil {
			r.fail(name, "is %q: give an age such as 7d or 36h, or off", text)
			return standard
		}
	}
	if d < least || d > most {
		r.fail(name, "is %s: give 1m to 3650d, or off", text)
		return standard
	}
	return d
}

func (r *reader) oneOf(name, text, standard string, choices ...string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return standard
	}
	for _, c := range choices {
		if text == c {
			return c
		}
	}
	r.fail(name, "is %q: give one of %s", text, strings.Join(choices, ", "))
	return standard
}

// address is where to serve, "" for nowhere.
func (r *reader) address(name, text, standard string) string {
	text = strings.TrimSpace(text)
	switch text {
	case "":
		return standard
	case "off":
		return ""
	}
	if err := observe.CheckAddr(text); err != nil {
		r.fail(name, "is wrong: %w", err)
	}
	return text
}

// function is the name of a SQL function, with or without "sql:".
func (r *reader) function(name, text string) string {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "sql:"))
	if strings.ContainsAny(text, "();\x00") {
		r.fail(name, "is %q: give the function's name alone, such as pricing.recompute", text)
	}
	return text
}

// target is what a handler calls: exactly one of its fields is set.
type target struct{ url, function string }

// String is for the log: a URL without user, password and query, which may be secret.
func (t target) String() string {
	if t.url == "" {
		return "sql:" + t.function
	}
	u, err := url.Parse(t.url)
	if err != nil {
		return "a URL that can't be parsed"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// target reads sql:FUNCTION or an HTTP URL.
func (r *reader) target(name, text string) target {
	if f, ok := strings.CutPrefix(text, "sql:"); ok {
		if strings.TrimSpace(f) == "" {
			r.fail(name, "is %q: name the function, such as sql:pricing.recompute", text)
		}
		return target{function: r.function(name, f)}
	}
	return target{url: r.url(name, text)}
}

func (r *reader) url(name, text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		r.fail(name, "is %q: give sql:FUNCTION, or a URL such as http://127.0.0.1:8080/path", withoutQuery(text))
	}
	return text
}

// withoutQuery cuts off what may be secret.
func withoutQuery(url string) string {
	shown, _, cut := strings.Cut(url, "?")
	if cut {
		shown += "?…"
	}
	return shown
}
