package integration

import (
	"fmt"
	"slices"
	"sync"
)

// ledger records each id at the enqueue's commit and at its completion.
type ledger struct {
	mu        sync.Mutex
	kept      map[fact]bool // committed
	dropped   map[fact]bool // rolled back
	completed map[fact]int
	worked    map[fact]int   // how often a handler had it: more than once after a refusal, a failure, a death
	counts    map[string]int // of what happened, for the report
}

func newLedger() *ledger {
	return &ledger{kept: map[fact]bool{}, dropped: map[fact]bool{}, completed: map[fact]int{}, worked: map[fact]int{}, counts: map[string]int{}}
}

func (l *ledger) enqueued(facts []fact, committed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range facts {
		if committed {
			l.kept[f] = true
		} else {
			l.dropped[f] = true
		}
	}
}

func (l *ledger) handled(facts []fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range facts {
		l.worked[f]++
	}
}

func (l *ledger) delivered(facts []fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range facts {
		l.completed[f]++
	}
}

func (l *ledger) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what]++
}

// compare says what is wrong, a few lines of each kind.
func (l *ledger) compare() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost, twice, ghosts []string
	for f := range l.kept {
		switch n := l.completed[f]; {
		case n == 0:
			lost = append(lost, fmt.Sprintf("id %s of catalog %s is lost", f.id, f.catalog))
		case n > 1:
			twice = append(twice, fmt.Sprintf("id %s of catalog %s was completed %d times", f.id, f.catalog, n))
		}
	}
	for f := range l.completed {
		if !l.kept[f] {
			ghosts = append(ghosts, fmt.Sprintf("id %s of catalog %s was completed and not committed (rolled back: %v)", f.id, f.catalog, l.dropped[f]))
		}
	}
	var out []string
	for _, kind := range [][]string{lost, twice, ghosts} {
		slices.Sort(kind)
		if n := len(kind); n > 5 {
			kind = append(kind[:5], fmt.Sprintf("… and %d more", n-5))
		}
		out = append(out, kind...)
	}
	return out
}

func (l *ledger) report() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := 0
	for _, n := range l.worked {
		if n > 1 {
			again++
		}
	}
	s := fmt.Sprintf("%d ids committed, %d rolled back, %d completed, %d handled more than once", len(l.kept), len(l.dropped), len(l.completed), again)
	var names []string
	for k := range l.counts {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		s += fmt.Sprintf("; %s %d", k, l.counts[k])
	}
	return s
}
