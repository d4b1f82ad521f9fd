package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

func main() {
	run := flag.String("run", "", "only mutations whose words match this regular expression")
	write := flag.String("write", "", "write what failed to this page; rows of mutations that were not made stay")
	with := flag.String("with", "", "a command to run each test run under, such as nice")
	flag.Parse()
	some, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	killers := map[string]string{}
	var unmade, survivors int
	for _, m := range all() {
		if !some.MatchString(m.what) {
			continue
		}
		began := time.Now()
		killer, err := m.try(strings.Fields(*with))
		if err != nil {
			unmade++
			fmt.Printf("%s (%s): %v\n", m.what, m.file, err)
			continue
		}
		if killer == "" {
			survivors++
			killer = none
		}
		fmt.Printf("%s (%s), %.0f s: %s\n", m.what, m.file, time.Since(began).Seconds(), killer)
		killers[m.row()] = killer
		keep(*write, killers)
	}
	keep(*write, killers)
	fmt.Printf("%d mutations, %d survive, %d could not be made\n", len(killers)+unmade, survivors, unmade)
	if survivors+unmade > 0 {
		os.Exit(1)
	}
}

// keep writes the page after each mutation: a run that is interrupted has not been for nothing.
func keep(file string, killers map[string]string) {
	if file == "" {
		return
	}
	if err := writePage(file, killers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
