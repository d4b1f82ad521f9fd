package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestBackoffDoublesIsSpreadAndNeverOverflows(t *testing.T) {
	s := queue.TypeSettings{}.WithDefaults("any")
	for n, full := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 300 * time.Second} {
		for range 200 {
			if d := s.Backoff(n); d < full/2 || d > full {
				t.Fatalf("attempt %d: %v, not within %v and %v", n, d, full/2, full)
			}
		}
	}
	for _, n := range []int{math.MinInt, -1, 0, 38, 62, 63, 64, 1500, math.MaxInt32, math.MaxInt} {
		for _, s := range []queue.TypeSettings{s, {BackoffBase: math.MaxInt64, BackoffCap: math.MaxInt64}, {BackoffBase: 1, BackoffCap: math.MaxInt64}, {}} {
			if d := s.Backoff(n); d < 0 || d > s.BackoffCap {
				t.Errorf("attempt %d of %+v: %v", n, s, d)
			}
		}
	}
}

func TestSettingsSayAllThatIsWrong(t *testing.T) {
	err := queue.TypeSettings{MaxAttempts: -1, BackoffBase: 2, BackoffCap: 1, Lease: 1, Timeout: -1}.Validate()
	for _, want := range []string{"max_attempts", "backoff_cap", "lease", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	if err := (queue.TypeSettings{}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := queue.New(queue.Config{MaxIDs: -1}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
}

func TestRetryable(t *testing.T) {
	pg := func(code string) error { return fmt.Errorf("reserve: %w", &pgconn.PgError{Code: code}) }
	for err, want := range map[error]bool{
		nil: false, pg("25006"): true, pg("57P01"): true, pg("53300"): true, pg("40P01"): true, pg("40001"): true, pg("55P03"): true,
		pg("57014"): true, pg("08006"): true, pg("58030"): true, pg("25P03"): true, pg("42501"): false, pg("42883"): false, pg("23505"): false,
		context.DeadlineExceeded: true, context.Canceled: false, io.ErrUnexpectedEOF: true, errors.New("conn closed"): true, errors.New("x"): false,
	} {
		if got := queue.Retryable(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if queue.Advice(pg("42883")) == "" || queue.Advice(pg("42501")) == "" || queue.Advice(pg("25006")) == "" || queue.Advice(pg("23505")) != "" {
		t.Error("advice is missing or given for nothing")
	}
}

// A caller may keep keys of its own in a config; they must not be taken for ours.
func TestAConfigIsReadByKeysAsTheyAreSpelt(t *testing.T) {
	var c queue.PriceRefreshConfig
	err := json.Unmarshal([]byte(`{"full": null, "Full": true, "CATALOGID": 5, "catalogId": "c", "catalogid": "d", "PRODUCTIDS": 7,
		"productIds": ["p1", 9007199254740993], "productids": ["p2"]}`), &c)
	if err != nil || c.Full || c.CatalogID != "c" || len(c.ProductIDs) != 2 || string(c.ProductIDs[0]) != `"p1"` || string(c.ProductIDs[1]) != "9007199254740993" {
		t.Fatalf("got %+v, %v", c, err)
	}
	if err := json.Unmarshal([]byte(`{"catalogId": "c", "productIds": ["p1"], "full": "yes"}`), &c); err == nil {
		t.Fatal("a full that is a string was read")
	}
}
