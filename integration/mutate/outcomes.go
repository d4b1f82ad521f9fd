package main

import (
	"fmt"
	"sync"
	"time"
)

// outcomes is what came of the mutations so far.
type outcomes struct {
	mu                sync.Mutex
	page              string // "" for none
	killers           map[string]string
	unmade, survivors int
}

// add says what came of a mutation, and writes the page after each: a run that is interrupted has not been for nothing.
func (o *outcomes) add(m mutation, killer string, err error, took time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.unmade++
		fmt.Printf("%s (%s): %v\n", m.what, m.file, err)
		return nil
	}
	if killer == "" {
		o.survivors++
		killer = none
	}
	fmt.Printf("%s (%s), %.0f s: %s\n", m.what, m.file, took.Seconds(), killer)
	o.killers[m.row()] = killer
	return o.write()
}

func (o *outcomes) write() error {
	if o.page == "" {
		return nil
	}
	return writePage(o.page, o.killers)
}
