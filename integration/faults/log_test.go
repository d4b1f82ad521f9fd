package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// entry is a line of a worker's log; what is no JSON has only a message.
type entry map[string]any

func (e entry) text(key string) string {
	s, _ := e[key].(string)
	return s
}

func (e entry) number(key string) int64 {
	n, _ := e[key].(float64)
	return int64(n)
}

func (e entry) message() string { return e.text("message") }

// says is a predicate for awaiting: the message contains text, and the fields have these values: says("job concluded",
// "outcome", "lost").
func says(text string, fields ...string) func(entry) bool {
	return func(e entry) bool {
		if !strings.Contains(e.message(), text) {
			return false
		}
		for i := 0; i < len(fields); i += 2 {
			if fmt.Sprint(e[fields[i]]) != fields[i+1] {
				return false
			}
		}
		return true
	}
}

// journal collects a log as it is written.
type journal struct {
	mu    sync.Mutex
	lines []string
	all   []entry
	grown chan struct{} // closed and made anew at each line
	ended bool
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

// read takes in lines until the end.
func (j *journal) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line = strings.TrimRight(line, "\n"); line != "" || err == nil {
			e := entry{}
			if json.Unmarshal([]byte(line), &e) != nil {
				e = entry{"message": line}
			}
			j.add(line, e, false)
		}
		if err != nil {
			j.add("", nil, true)
			return
		}
	}
}

func (j *journal) add(line string, e entry, end bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if end {
		j.ended = true
	} else {
		j.lines, j.all = append(j.lines, line), append(j.all, e)
	}
	close(j.grown)
	j.grown = make(chan struct{})
}

// mark is the present end of the log, for await.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.all)
}

// await returns the first line from mark on that is like this; false when none came in time, or the log ended.
func (j *journal) await(mark int, within time.Duration, like func(entry) bool) (entry, bool) {
	clock := time.NewTimer(within)
	defer clock.Stop()
	for {
		j.mu.Lock()
		for ; mark < len(j.all); mark++ {
			if like(j.all[mark]) {
				defer j.mu.Unlock()
				return j.all[mark], true
			}
		}
		ended, grown := j.ended, j.grown
		j.mu.Unlock()
		if ended {
			return nil, false
		}
		select {
		case <-grown:
		case <-clock.C:
			return nil, false
		}
	}
}

// count is how many lines from mark on are like this.
func (j *journal) count(mark int, like func(entry) bool) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, e := range j.all[min(mark, len(j.all)):] {
		if like(e) {
			n++
		}
	}
	return n
}

// tail is the end of the log as it was written.
func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-n):], "\n")
}
