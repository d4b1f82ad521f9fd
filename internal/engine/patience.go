package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Patience says how long a chunk that fails is tried. The zero value means the defaults for every field.
//
// Work stays bounded whatever fails: one chunk is tried for OutageFor at most (besides the waits that the recomputation
// itself asks for), at most maxParts of its parts are tried and at most maxPartsRefresh of a refresh. What has not been
// recomputed by then is in the dead letter with the reason.
type Patience struct {
	Tries     int           // of a chunk that the recomputation can't digest, before it is tried in parts; 0 means 3
	First     time.Duration // delay after the first failure, doubled after each further one; 0 means 200ms
	Cap       time.Duration // no delay is longer; 0 means 30s
	OutageFor time.Duration // how long a recomputation that is out of order is waited for; 0 means 30m
	LaterFor  time.Duration // how long one that says "not now" is waited for; 0 means 6h
}

const (
	// One bad product among 500 is found in 18 calls; 64 find three or four.
	maxParts        = 64
	maxPartsRefresh = 1000
	// After so many failures that may be the products' fault, halves are tried.
	probeEvery = 4
	// Who says "not now, but at once" again and again is asked about once a second.
	notNowCap = time.Second
)

func (p Patience) withDefaults() Patience {
	p.Tries = orDefault(p.Tries, 3)
	p.First = orDefault(p.First, 200*time.Millisecond)
	p.Cap = max(orDefault(p.Cap, 30*time.Second), p.First)
	p.OutageFor = orDefault(p.OutageFor, 30*time.Minute)
	p.LaterFor = orDefault(p.LaterFor, 6*time.Hour)
	return p
}

func (p Patience) validate() error {
	var errs []error
	if p.Tries < 0 {
		errs = append(errs, fmt.Errorf("engine: tries is %d: it can't be negative", p.Tries))
	}
	for name, d := range map[string]time.Duration{"first delay": p.First, "delay cap": p.Cap, "outage_for": p.OutageFor, "later_for": p.LaterFor} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("engine: %s is %v: it can't be negative", name, d))
		}
	}
	return errors.Join(errs...)
}

// backoff is the delay after failure number n, from 1 on.
func (p Patience) backoff(n int) time.Duration {
	d := growing(p.First, p.Cap, n-1)
	return d/2 + rand.N(d/2+1)
}

// notNow is the delay after "not now" was said n times, the last time with a delay of its own, which may be none: hours of that
// must not be hours of calls without a pause.
func (p Patience) notNow(asked time.Duration, n int) time.Duration {
	return max(asked, min(p.backoff(n), notNowCap))
}
