package observe

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	maxTypes  = 50 // distinct labels for types of jobs; whoever may enqueue can make up types without end
	maxLabel  = 100
	otherType = "other"
)

// labels bounds the values of a label: those that are known, then those that are met first.
type labels struct {
	mu   sync.Mutex
	have map[string]bool
}

func (l *labels) know(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range names {
		l.put(n)
	}
}

func (l *labels) put(name string) {
	if l.have == nil {
		l.have = map[string]bool{}
	}
	l.have[name] = true
}

func (l *labels) of(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have[name] {
		return name
	}
	if len(l.have) >= maxTypes || len(name) > maxLabel || strings.ToValidUTF8(name, "") != name {
		return otherType
	}
	l.put(strings.Clone(name))
	return name
}

func (l *labels) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.have))
}
