package engine

import (
	"testing"
	"time"
)

// Else a job that is refused because of a refresh ends as a dead letter before what it waits for has been given up.
func TestTheAttemptsOfARefusedJobOutlastARefreshThatIsToldNotNow(t *testing.T) {
	const attempts = 100 // of a PRICE_REFRESH, by default; the last refusal is followed by no delay
	var least time.Duration
	for attempt := 1; attempt < attempts; attempt++ {
		d := growing(refusedFirst, refusedCap, attempt-1)
		least += d / 2
		if got := refusedDelay(attempt); got < d/2 || got > d {
			t.Errorf("attempt %d is followed by %v, want %v to %v", attempt, got, d/2, d)
		}
	}
	if longest := (Patience{}).withDefaults().LaterFor; least <= longest {
		t.Errorf("refused for as little as %v, and a chunk may be waited for for %v", least, longest)
	}
}
