package listen

import (
	"strconv"
	"strings"
)

// Handed is what a payload says of a job that a commit has handed to one of the workers. Like any payload it is but a hint: the table
// alone says whose the job is.
type Handed struct {
	Worker string // UUID
	Job    int64
}

const (
	handedStart  = `{"worker":"`
	handedMiddle = `","job":`
	uuidLength   = 36
)

// parseHanded reads {"worker":"…","job":…} as hand_over writes it. Whoever does not know it takes it for a hint without parts, and
// looks once.
func parseHanded(payload string) (h Handed, ok bool) {
	rest, ok := strings.CutPrefix(payload, handedStart)
	if !ok || len(rest) < uuidLength+len(handedMiddle)+2 || rest[uuidLength:uuidLength+len(handedMiddle)] != handedMiddle {
		return Handed{}, false
	}
	digits, ok := strings.CutSuffix(rest[uuidLength+len(handedMiddle):], "}")
	if !ok {
		return Handed{}, false
	}
	h.Worker = rest[:uuidLength]
	job, err := strconv.ParseInt(digits, 10, 64)
	h.Job = job
	return h, err == nil && job > 0
}
