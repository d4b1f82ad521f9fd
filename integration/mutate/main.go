package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

func main() {
	run := flag.String("run", "", "only mutations whose words match this regular expression")
	write := flag.String("write", "", "write the table of all mutations to this page")
	flag.Parse()
	some, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var rows []string
	survivors := 0
	for _, m := range all() {
		if !some.MatchString(m.what) {
			continue
		}
		killer, err := m.try()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.what, err)
			os.Exit(2)
		}
		if killer == "" {
			survivors++
			killer = "**none**"
		}
		fmt.Printf("%s (%s): %s\n", m.what, m.file, killer)
		rows = append(rows, fmt.Sprintf("| %s | `%s` | %s |", m.what, m.file, killer))
	}
	if *write != "" {
		if err := writePage(*write, rows); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	fmt.Printf("%d mutations, %d survive\n", len(rows), survivors)
	if survivors > 0 {
		os.Exit(1)
	}
}

const begins = `# Mutations

Is every line of the protocol held by a test? ` + "`go run ./integration/mutate -write docs/mutations.md`" + ` takes single lines out, one
at a time, runs the tests that should notice, and writes this page. Each row: what was taken out, and the first test that
failed without it; for a schedule, the sessions, the scene and the order of their steps.

| taken out | of | what fails |
|---|---|---|
`

func writePage(file string, rows []string) error {
	return os.WriteFile(file, []byte(begins+strings.Join(rows, "\n")+"\n"), 0o644)
}
