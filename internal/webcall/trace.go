package webcall

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
)

var (
	traceIDForm     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	traceparentForm = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)
)

// Traceparent is the W3C header for a job's trace id: the id itself where it is a traceparent already, one made of it where
// it is a trace id of 32 hex digits, else a random one, not sampled.
func Traceparent(trace string) string {
	trace = strings.ToLower(strings.TrimSpace(trace))
	if m := traceparentForm.FindStringSubmatch(trace); m != nil && m[1] != "ff" && !zeros(m[2]) && !zeros(m[3]) {
		return trace
	}
	if traceIDForm.MatchString(trace) && !zeros(trace) {
		return "00-" + trace + "-" + random(8) + "-01"
	}
	return "00-" + random(16) + "-" + random(8) + "-00"
}

func zeros(s string) bool { return strings.Trim(s, "0") == "" }

// random is n random bytes in hex, never all zeros, which the standard forbids.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	b[0] |= 1
	return hex.EncodeToString(b)
}
