package main

import (
	"fmt"
	"os"
	"strings"
)

// mutation is one change of one file.
type mutation struct {
	what string // is gone, in words
	file string
	old  string // there exactly once, or at all places if all is set
	new  string
	all  bool
	in   string // the package of the tests that should notice; "" means ./integration/
	run  string // these tests, as -run takes it
}

// apply returns the file's text with the change made.
func (m mutation) apply() (string, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	n := strings.Count(string(text), m.old)
	if n == 0 || (n > 1 && !m.all) {
		return "", fmt.Errorf("%s: what is to be changed is there %d times: %q", m.file, n, m.old)
	}
	return strings.ReplaceAll(string(text), m.old, m.new), nil
}

func all() []mutation {
	var out []mutation
	for _, ms := range [][]mutation{adding, taking, returning, byHand, waking, handing, handedTaken, seating, admitting, refreshing, rows, firstGeneration} {
		out = append(out, ms...)
	}
	return out
}
