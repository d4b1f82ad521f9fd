package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// call is one request to an endpoint of the test's: of a job's handler, or of the recomputation.
type call struct {
	At time.Time

	JobID   int64           `json:"jobId"`
	Type    string          `json:"type"`
	Attempt int             `json:"attempt"`
	Config  json.RawMessage `json:"config"`

	RefreshID  int64    `json:"refreshId"`
	CatalogID  string   `json:"catalogId"`
	Chunk      int      `json:"chunk"`
	ProductIDs []string `json:"productIds"`

	Gone <-chan struct{} // closed when the caller has gone
}

// endpoint serves workers in the test's own process, so that a fault can come at any moment of a call.
type endpoint struct {
	URL string

	mu    sync.Mutex
	calls []call
}

// serve answers 200 with what the test says; an empty answer is a success.
func serve(t testing.TB, answer func(call) string) *endpoint {
	t.Helper()
	e := &endpoint{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := call{At: time.Now(), Gone: req.Context().Done()}
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = json.Unmarshal(body, &c)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		e.calls = append(e.calls, c)
		e.mu.Unlock()
		_, _ = io.WriteString(w, answer(c))
	}))
	t.Cleanup(s.Close)
	e.URL = s.URL
	return e
}

// seen returns the calls so far.
func (e *endpoint) seen() []call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]call(nil), e.calls...)
}

// arrival waits for a value on a channel.
func arrival[T any](t testing.TB, c <-chan T, within time.Duration, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patient(within)):
		t.Fatalf("not within %v: %s", within, what)
		panic("unreachable")
	}
}
