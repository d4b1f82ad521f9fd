package listen

import (
	"strings"
	"sync"
	"time"
)

// Cause is why the bell rang.
type Cause uint8

// The causes.
const (
	Notified   Cause = iota // a notification told of work
	Due                     // a due time came, or a time to look that the worker has set itself
	Poll                    // nothing asked for it: the net under all the others
	Connected               // listening (again): what was announced before was not heard
	Overdue                 // the own echo did not come back: something may have been missed
	Nudged                  // another part of this process knows of work
	Unheard                 // work was due, and nobody seemed to hear of it
	Seated                  // a seat was had, which somebody left who could take no more
	HandedOver              // a commit handed this process a job, or one to another that may have let it lie
	Many                    // a notification told of work, and that many commits at once wait for each other to tell of theirs
	causes
)

var causeNames = [causes]string{"notified", "due", "poll", "connected", "overdue", "nudged", "unheard", "seated", "handed", "many"}

// String is the name that logs and metrics use.
func (c Cause) String() string {
	if c >= causes {
		return "unknown"
	}
	return causeNames[c]
}

// Causes is a set of them.
type Causes uint16

// Has says whether c is in the set.
func (s Causes) Has(c Cause) bool { return s&(1<<c) != 0 }

// Only says whether c is all that is in the set.
func (s Causes) Only(c Cause) bool { return s == 1<<c }

// OnlyOf says whether the set has some of these, and nothing else.
func (s Causes) OnlyOf(some ...Cause) bool {
	rest := s
	for _, c := range some {
		rest = rest.Without(c)
	}
	return s != 0 && rest == 0
}

// Without is the set without c.
func (s Causes) Without(c Cause) Causes { return s &^ (1 << c) }

// All returns the members in the order of their declaration.
func (s Causes) All() []Cause {
	var all []Cause
	for c := range causes {
		if s.Has(c) {
			all = append(all, c)
		}
	}
	return all
}

// String joins the names by "+".
func (s Causes) String() string {
	var names []string
	for _, c := range s.All() {
		names = append(names, c.String())
	}
	return strings.Join(names, "+")
}

// Doorbell makes one wake-up of many causes. Ringing never blocks; rings between two Takes are one. Its memory does not
// depend on how often it rings: a set of causes, and the earliest due time.
type Doorbell struct {
	c chan struct{}

	mu    sync.Mutex
	rung  Causes
	rings [causes]uint64
	timer *time.Timer // nil while nothing is due later
	at    time.Time   // when timer fires
	muted bool        // after Close
}

// NewDoorbell returns a bell that has not rung.
func NewDoorbell() *Doorbell { return &Doorbell{c: make(chan struct{}, 1)} }

// C is readable while the bell has rung since the last Take. One goroutine waits for it.
func (b *Doorbell) C() <-chan struct{} { return b.c }

// Ring adds a cause and wakes who waits.
func (b *Doorbell) Ring(c Cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring(c)
}

func (b *Doorbell) ring(c Cause) {
	if b.muted {
		return
	}
	b.rings[c]++
	b.rung |= 1 << c
	select {
	case b.c <- struct{}{}:
	default:
	}
}

// Take returns what rang since the last Take and makes the bell silent. Take before the look that answers it: what rings
// during the look is for the next one.
func (b *Doorbell) Take() Causes {
	b.mu.Lock()
	defer b.mu.Unlock()
	rung := b.rung
	b.rung = 0
	select {
	case <-b.c:
	default:
	}
	return rung
}

// RingIn rings Due after d, unless an earlier due time is known already: only the earliest is kept, since the look that it
// causes tells the next.
func (b *Doorbell) RingIn(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := time.Now().Add(d)
	if b.muted || b.timer != nil && !at.Before(b.at) {
		return
	}
	if d <= 0 {
		b.ring(Due)
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	b.at = at
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.timer == t { // else it was replaced while it fired
			b.timer = nil
			b.ring(Due)
		}
	})
	b.timer = t
}

// NextDue returns when the bell will ring for a due time, the zero time when none is known.
func (b *Doorbell) NextDue() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil {
		return time.Time{}
	}
	return b.at
}

// Rings returns how often each cause has rung.
func (b *Doorbell) Rings() map[Cause]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := make(map[Cause]uint64, causes)
	for c, n := range b.rings {
		m[Cause(c)] = n
	}
	return m
}

// Close stops the due timer; the bell stays silent from then on.
func (b *Doorbell) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.muted = true
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}
