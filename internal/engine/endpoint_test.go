package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/webcall"
)

// received is what an endpoint was sent.
type received struct {
	Key, Trace string
	Body       string
	IDs        []json.RawMessage
}

type endpoint struct {
	*engine.HTTPEndpoint
	mu  sync.Mutex
	got []received
}

func (e *endpoint) calls() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]received(nil), e.got...)
}

// serve makes an endpoint; n counts the calls from 1.
func serve(t testing.TB, answer func(w http.ResponseWriter, n int, r received)) *endpoint {
	t.Helper()
	e := &endpoint{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r := received{Key: req.Header.Get("Idempotency-Key"), Trace: req.Header.Get("Traceparent"), Body: string(body)}
		var b struct{ ProductIDs []json.RawMessage }
		if err := json.Unmarshal(body, &b); err != nil {
			t.Error(err)
		}
		r.IDs = b.ProductIDs
		e.mu.Lock()
		e.got = append(e.got, r)
		n := len(e.got)
		e.mu.Unlock()
		answer(w, n, r)
	}))
	t.Cleanup(s.Close)
	h, err := engine.NewHTTPEndpoint(webcall.Config{URL: s.URL, Timeout: 5 * time.Second})
	must(t, err)
	t.Cleanup(h.Close)
	e.HTTPEndpoint = h
	return e
}

func TestAnHTTPEndpointIsSentChunks(t *testing.T) {
	b := newBench(t)
	h := serve(t, func(w http.ResponseWriter, n int, _ received) {
		if n == 1 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, `{"recomputed": 7, "failed": [{"id": "9007199254740993", "error": "no rule"}]}`)
	})
	e := b.start(h, func(c *engine.Config) { c.Chunk = 2 })
	id, err := e.Submit(context.Background(), b.job("c", `["p1", 2, 9007199254740993]`))
	must(t, err)
	if l := b.letter(); strings.Join(l.IDs, " ") != "9007199254740993" || l.Failed[0].Error != "no rule" {
		t.Errorf("dead letter %+v", l)
	}
	if n := value[int](b, `SELECT recomputed FROM notifyworker.refreshes`); n != 2+7 {
		t.Errorf("%d recomputed, want 9", n)
	}
	got := h.calls()
	const zeros = "00000000-0000-0000-0000-000000000000"
	for i, want := range []received{
		{Key: fmt.Sprintf("refresh-%d-0", id), Body: fmt.Sprintf(`{"refreshId":%d,"tenantId":"%s","catalogId":"c","full":false,"chunk":0,"productIds":["p1",2],"traceId":"trace-c"}`, id, zeros)},
		{Key: fmt.Sprintf("refresh-%d-2", id), Body: fmt.Sprintf(`{"refreshId":%d,"tenantId":"%s","catalogId":"c","full":false,"chunk":1,"productIds":[9007199254740993],"traceId":"trace-c"}`, id, zeros)},
	} {
		if len(got) != 2 || got[i].Key != want.Key || got[i].Body != want.Body || !regexp.MustCompile("^00-[0-9a-f]{32}-[0-9a-f]{16}-00$").MatchString(got[i].Trace) {
			t.Fatalf("call %d of %d: got %+v, want %+v", i, len(got), got[i], want)
		}
	}
}

func TestAnHTTPEndpointIsAskedForAWholeCatalog(t *testing.T) {
	b := newBench(t)
	h := serve(t, func(w http.ResponseWriter, _ int, _ received) { _, _ = io.WriteString(w, `{"recomputed": 123}`) })
	id, err := b.start(h).Submit(context.Background(), b.fullJob("c"))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' AND recomputed = 123 FROM notifyworker.refreshes WHERE id = $1`, id)
	if got := h.calls(); len(got) != 1 || !strings.Contains(got[0].Body, `"full":true,"chunk":0,"productIds":null,"traceId":null`) {
		t.Errorf("called with %+v", got)
	}
}

func TestAnHTTPEndpointInTrouble(t *testing.T) {
	for name, trouble := range map[string]func(w http.ResponseWriter){
		"429, later": func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) },
		"503":        func(w http.ResponseWriter) { w.WriteHeader(503) },
		"404":        func(w http.ResponseWriter) { w.WriteHeader(404) },
		"302":        func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(302) },
		"hangs up":   func(w http.ResponseWriter) { conn, _, _ := w.(http.Hijacker).Hijack(); _ = conn.Close() },
		"not JSON":   func(w http.ResponseWriter) { _, _ = io.WriteString(w, "ok") },
		"huge":       func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat(" ", 1<<20+1)) },
		"odd":        func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"recomputed": "seven"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			h := serve(t, func(w http.ResponseWriter, n int, _ received) {
				if n <= 3 {
					trouble(w)
				}
			})
			_, err := b.start(h).Submit(context.Background(), b.job("c", ids(0, 5)))
			must(t, err)
			b.eventually(`SELECT status = 'DONE' AND recomputed = 5 FROM notifyworker.refreshes`)
			for _, c := range h.calls() {
				if len(c.IDs) != 5 || c.Key != h.calls()[0].Key {
					t.Errorf("a call of %d products under key %s", len(c.IDs), c.Key)
				}
			}
		})
	}
}

func TestAnHTTPEndpointRejectsAProduct(t *testing.T) {
	for _, status := range []int{400, 413, 422, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			b := newBench(t)
			h := serve(t, func(w http.ResponseWriter, _ int, r received) {
				if strings.Contains(r.Body, `"p33"`) {
					http.Error(w, "p33 is a bundle", status)
				}
			})
			_, err := b.start(h).Submit(context.Background(), b.job("c", ids(0, 50)))
			must(t, err)
			if l := b.letter(); strings.Join(l.IDs, " ") != `"p33"` || !strings.Contains(l.Failed[0].Error, "p33 is a bundle") {
				t.Errorf("dead letter %+v", l)
			}
			keys := map[string]string{}
			for _, c := range h.calls() {
				if body, known := keys[c.Key]; known && body != c.Body {
					t.Errorf("key %s stands for two requests", c.Key)
				}
				keys[c.Key] = c.Body
			}
		})
	}
}
