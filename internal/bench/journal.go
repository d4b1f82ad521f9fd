package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
)

// journal reads what one worker process logs as JSON: where it serves its metrics, whom it names as the one who pins vacuum.
// Other warnings and errors are troubles.
type journal struct {
	troubles *troubles
	serves   chan string // has the URL once

	mu     sync.Mutex
	rest   []byte // of a line that has not ended
	served bool
	named  map[int]bool
}

func newJournal(t *troubles) *journal {
	return &journal{troubles: t, serves: make(chan string, 1), named: map[int]bool{}}
}

// Write never fails: a process must not stop because its log can't be read.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, p...)
	for {
		line, rest, ok := bytes.Cut(j.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		j.line(line)
		j.rest = append([]byte(nil), rest...)
	}
}

func (j *journal) line(text []byte) {
	var l struct {
		Level        string
		URL          string
		PID          int
		Message      string
		Error        string
		Transactions *int64 // that have begun since a snapshot: only the warning of pinned vacuum tells them
	}
	said := text
	switch err := json.Unmarshal(text, &l); {
	case err != nil: // such as a panic
	case l.Transactions != nil && l.Level == "warn":
		j.named[l.PID] = true
		return
	case strings.HasPrefix(l.URL, "http://") && !j.served:
		j.served = true
		j.serves <- l.URL
		return
	case l.Level == "info" || l.Level == "debug":
		return
	case l.Error != "":
		said = []byte(l.Message + ": " + l.Error)
	case l.Message != "":
		said = []byte(l.Message)
	}
	said = append(bytes.ReplaceAll(said, []byte("\n"), []byte(" ")), '\n')
	j.troubles.Write(said) //nolint:errcheck // never fails
}

// url waits for where the process serves its metrics.
func (j *journal) url(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, errors.New("it does not serve its metrics after a minute"))
	defer cancel()
	select {
	case u := <-j.serves:
		j.serves <- u // for whoever asks next
		return u, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// names says whether a warning named this session as the one that pins vacuum.
func (j *journal) names(pid int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.named[pid]
}
