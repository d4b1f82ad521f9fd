package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	run := flag.String("run", "", "only mutations whose words match this regular expression")
	write := flag.String("write", "", "write what failed to this page; rows of mutations that were not made stay")
	left := flag.Bool("left", false, "only mutations that the page has no outcome of yet")
	at := flag.Int("at", 1, "so many mutations at once; the tests of each have a server of their own")
	length := flag.Duration("for", 24*time.Hour, "begin no more mutations after this time")
	with := flag.String("with", "", "a command to run each test run under, such as nice")
	flag.Parse()
	some, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	old, err := readPage(*write)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	out := &outcomes{page: *write, killers: map[string]string{}}
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(*at)
	for _, m := range all() {
		if !some.MatchString(m.what) || (*left && made(old, m)) {
			continue
		}
		g.Go(func() error {
			if time.Since(began) > *length {
				return nil
			}
			began := time.Now()
			killer, err := m.try(strings.Fields(*with))
			return out.add(m, killer, err, time.Since(began))
		})
	}
	if err := cmp.Or(g.Wait(), out.write()); err != nil { // mutations that are gone lose their rows, whatever was made
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%d mutations, %d survive, %d could not be made\n", len(out.killers)+out.unmade, out.survivors, out.unmade)
	if out.survivors+out.unmade > 0 {
		os.Exit(1)
	}
}
