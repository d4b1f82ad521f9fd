package queue

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// TypeSettings are the rules of one job type. The zero value means the defaults of DefaultSettings for every field.
type TypeSettings struct {
	MaxAttempts int           // caps the row's max_attempts; 0 leaves the row's
	BackoffBase time.Duration // delay after the first attempt, doubled after each further one
	BackoffCap  time.Duration // no delay is longer
	Lease       time.Duration // how long a reservation holds without a heartbeat
	Timeout     time.Duration // how long one attempt may take; 0 means no limit
}

// Defaults: a lease is extended every quarter of its length, so a killed worker's job starts anew within about Lease.
const (
	DefaultLease       = 8 * time.Second
	DefaultBackoffBase = time.Second
	DefaultBackoffCap  = 5 * time.Minute
	// A PRICE_REFRESH that was refused is woken by the release that it waits for, so its back-off is only the net under it.
	PriceRefreshBackoffBase = 100 * time.Millisecond
	PriceRefreshBackoffCap  = 10 * time.Second

	minLease = 500 * time.Millisecond
)

// WithDefaults returns s with its zero fields filled for a type.
func (s TypeSettings) WithDefaults(jobType string) TypeSettings {
	base, ceiling := DefaultBackoffBase, DefaultBackoffCap
	if jobType == TypePriceRefresh {
		base, ceiling = PriceRefreshBackoffBase, PriceRefreshBackoffCap
	}
	if s.BackoffBase == 0 {
		s.BackoffBase = base
	}
	if s.BackoffCap == 0 {
		s.BackoffCap = max(ceiling, s.BackoffBase)
	}
	if s.Lease == 0 {
		s.Lease = DefaultLease
	}
	return s
}

// Validate says all that is wrong with s at once.
func (s TypeSettings) Validate() error {
	var errs []error
	if s.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("max_attempts is %d: give a positive number, or 0 for the row's own", s.MaxAttempts))
	}
	for name, d := range map[string]time.Duration{"backoff": s.BackoffBase, "backoff_cap": s.BackoffCap, "timeout": s.Timeout} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: it can't be negative", name, d))
		}
	}
	if s.Lease != 0 && s.Lease < minLease {
		errs = append(errs, fmt.Errorf("lease is %v: give at least %v, or live jobs would be rescued", s.Lease, minLease))
	}
	if s.BackoffCap != 0 && s.BackoffCap < s.BackoffBase {
		errs = append(errs, fmt.Errorf("backoff_cap %v is below backoff %v", s.BackoffCap, s.BackoffBase))
	}
	return errors.Join(errs...)
}

// Limit is the number of attempts after which a job of the row's max_attempts is a dead letter.
func (s TypeSettings) Limit(maxAttempts int) int {
	if s.MaxAttempts > 0 && s.MaxAttempts < maxAttempts {
		return s.MaxAttempts
	}
	return maxAttempts
}

// Backoff is the delay after attempt number n (1 is the first): BackoffBase doubled n-1 times, at most BackoffCap, then
// spread evenly over its upper half so that jobs that failed together don't return together. It is defined for every n.
func (s TypeSettings) Backoff(n int) time.Duration {
	d := s.BackoffCap
	// 2^62 ns is beyond any cap, so a larger shift is never computed.
	if n = max(n, 1); n-1 < 62 {
		if f := float64(s.BackoffBase) * math.Pow(2, float64(n-1)); f < float64(s.BackoffCap) {
			d = time.Duration(f)
		}
	}
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2+1)
}
