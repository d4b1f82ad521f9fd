package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const (
	none   = "**none**" // no test noticed it
	unmade = "**not made yet**"
)

const begins = `# Mutations

Is every line of the protocol held by a test? ` + "`make mutate`" + ` takes single lines out of the SQL or turns them around, one at a time,
runs the tests that should notice, and writes this page. It takes an hour or more; ` + "`make mutate RUN='lease|token'`" + ` makes some of
them and leaves the other rows as they are. Where the tests that should notice don't, the rest of their package is run; what fails
then counts if it fails again, alone. A test sees to it that each mutation can still be made, has tests and has its row.

Each row: what was taken out, and the first test that failed without it; for a schedule, the sessions, the scene and the order of
their steps. What the lines are for is in [protocol.md](protocol.md) and in their files; that the protocol needs them, whatever
the tests find, is shown in [model.md](model.md).

%s

| taken out | of | what fails |
|---|---|---|
`

// row is how the mutation's row of the page begins.
func (m mutation) row() string {
	return fmt.Sprintf("| %s | [%[2]s](../%[2]s) | ", m.what, m.file)
}

// page is the page with these killers; rows that have none are as they are in the old page.
func page(old string, killers map[string]string) string {
	var b strings.Builder
	left, missed := 0, 0
	for _, m := range all() {
		killer, ok := killers[m.row()]
		if !ok {
			killer = killerIn(old, m)
		}
		switch killer {
		case unmade:
			left++
		case none:
			missed++
		}
		b.WriteString(m.row() + killer + " |\n")
	}
	n := len(all())
	count := fmt.Sprintf("%d mutations: all of them were made, and %d made a test fail.", n, n-missed)
	if left > 0 {
		count = fmt.Sprintf("%d mutations: %d of them were made, and %d of these made a test fail. **%d have not been made yet**; their rows say so.", n, n-left, n-left-missed, left)
	}
	return fmt.Sprintf(begins, count) + b.String()
}

// killerIn is what a page says of a mutation.
func killerIn(page string, m mutation) string {
	for l := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(l, m.row()); ok {
			return strings.TrimSuffix(rest, " |\n")
		}
	}
	return unmade
}

// made tells whether a test has noticed the mutation, by what the page says.
func made(page string, m mutation) bool {
	killer := killerIn(page, m)
	return killer != unmade && killer != none
}

// readPage returns "" for a page that isn't there yet.
func readPage(file string) (string, error) {
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

func writePage(file string, killers map[string]string) error {
	old, err := readPage(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(page(old, killers)), 0o644)
}
