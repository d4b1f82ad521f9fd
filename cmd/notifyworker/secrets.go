package main

import (
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const redacted = "***"

// secrets are the passwords that this process knows of and never prints, whatever a library puts into its errors.
type secrets struct {
	mu    sync.Mutex
	words []string // replaced wherever they stand, longest first
	near  []string // too short or too common for that: replaced only where a password stands
}

// newSecrets gathers what the environment and the command line tell.
func newSecrets(environ, args []string) *secrets {
	s := &secrets{}
	names := slices.Clone(everywhere) // what stands beside a password of the environment
	for _, text := range append(slices.Clone(environ), args...) {
		name, value, _ := strings.Cut(text, "=")
		switch {
		case name == "PGUSER" || name == "PGDATABASE" || name == "PGHOST" || name == "USER":
			names = append(names, value)
		case strings.Contains(text, "://"):
			names = append(names, parts(text)...)
		}
	}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "PGPASSWORD" || name == "PGSSLPASSWORD":
			s.add(value, names)
		case strings.Contains(value, "://") || strings.HasPrefix(name, "DATABASE_URL") || strings.HasPrefix(name, "NOTIFYWORKER_"):
			s.learn(value)
		}
	}
	s.learn(args...)
	return s
}

// everywhere are words that every other line has.
var everywhere = []string{"postgres", "notifyworker"}

var (
	wordPassword = regexp.MustCompile(`(?i)(?:ssl)?password\s*=\s*('(?:[^'\\]|\\.)*'|[^&\s]+)`)
	jsonParts    = regexp.MustCompile(`^(?:[-+.0-9eE{}\[\]":,\s]+|true|false|null)$`)
	nearPassword = regexp.MustCompile(`(?i)password\s*=\s*(?:'(?:[^'\\]|\\.)*'?|[^&\s'"]+)`)
	wordCommon   = regexp.MustCompile(`(?i)\b(?:user|dbname|host)\s*=\s*([^&\s]+)`)
)

// learn takes connection strings and URLs, right or wrong, and remembers the passwords in them. It looks at the text alone:
// a string with a password in it is printed most easily when it can't be parsed.
func (s *secrets) learn(texts ...string) {
	for _, text := range texts {
		for _, rest := range strings.Split(text, "://")[min(1, strings.Count(text, "://")):] {
			s.learnUserinfo(rest)
		}
		for _, m := range wordPassword.FindAllStringSubmatch(text, -1) {
			common := slices.Clone(everywhere)
			for _, u := range wordCommon.FindAllStringSubmatch(text, -1) {
				common = append(common, u[1])
			}
			s.add(strings.Trim(m[1], "'"), common)
		}
	}
}

// learnUserinfo takes what stands behind "://". An @ that belongs into the password, and one that belongs behind the host,
// look alike: the password is remembered up to the first one and up to the last one.
func (s *secrets) learnUserinfo(rest string) {
	first, last := strings.Index(rest, "@"), strings.LastIndex(rest, "@")
	if first < 0 {
		return
	}
	common := append(parts(rest[last+1:]), everywhere...)
	for _, at := range []int{first, last} {
		if user, password, ok := strings.Cut(rest[:at], ":"); ok {
			s.add(password, append(common, user))
		}
	}
}

// parts are what a URL consists of.
func parts(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("/:?&=@, \t\n", r) })
}

// add remembers a password and the ways it can be written.
func (s *secrets) add(password string, common []string) {
	if password == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	forms := []string{password}
	if p, err := url.PathUnescape(password); err == nil {
		forms = append(forms, p)
	}
	forms = append(forms, url.QueryEscape(password), url.PathEscape(password), strings.ReplaceAll(password, `\`, ""))
	for _, f := range forms {
		if len(f) < 4 || slices.Contains(common, f) || jsonParts.MatchString(f) { // a number cut out of a larger one would be no JSON any more
			s.near = appendOnce(s.near, f)
		} else {
			s.words = appendOnce(s.words, f)
		}
	}
	slices.SortFunc(s.words, func(a, b string) int { return len(b) - len(a) })
}

func appendOnce(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// clean cuts the passwords out of a text.
func (s *secrets) clean(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.words {
		text = strings.ReplaceAll(text, w, redacted)
	}
	for _, w := range s.near {
		text = strings.ReplaceAll(text, ":"+w+"@", ":"+redacted+"@")
		text = nearPassword.ReplaceAllStringFunc(text, func(m string) string {
			if at := strings.Index(m, "=") + 1; strings.HasPrefix(strings.TrimLeft(m[at:], " \t'"), w) {
				return m[:at] + redacted
			}
			return m
		})
		text = strings.ReplaceAll(text, "password="+w, "password="+redacted)
	}
	return text
}

// writer cleans all that is written to w. Whoever writes a password in two pieces gets past it; lines and log entries are
// written whole.
func (s *secrets) writer(w io.Writer) io.Writer { return cleanWriter{s, w} }

type cleanWriter struct {
	s *secrets
	w io.Writer
}

func (c cleanWriter) Write(p []byte) (int, error) {
	text := c.s.clean(string(p))
	if _, err := io.WriteString(c.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}
