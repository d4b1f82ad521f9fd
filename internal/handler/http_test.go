package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/handler"
	"notifyworker/internal/queue"
	"notifyworker/internal/webcall"
)

var job = queue.Job{ID: 7, TenantID: queue.DefaultTenant, Type: "csv_import", Config: json.RawMessage(`{"rows": 9007199254740993}`), Attempt: 2, MaxAttempts: 20}

func endpoint(t testing.TB, h http.HandlerFunc) *handler.HTTP {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	out, err := handler.NewHTTP(webcall.Config{URL: s.URL + "/import?key=secret", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	if strings.Contains(out.String(), "secret") {
		t.Errorf("%s shows a secret", out)
	}
	return out
}

func TestAnEndpointIsSentTheJob(t *testing.T) {
	var key, body string
	h := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		_, _ = io.WriteString(w, `{"imported": 9007199254740993}`)
	})
	out := h.Handle(context.Background(), job)
	if out.Kind != queue.Completed || string(out.Result) != `{"imported": 9007199254740993}` || out.Err != nil {
		t.Errorf("got %+v", out)
	}
	if want := `{"jobId":7,"type":"csv_import","tenantId":"00000000-0000-0000-0000-000000000000","operatedBy":null,"config":{"rows":9007199254740993},"attempt":2,"maxAttempts":20,"traceId":null}`; key != "job-7" || body != want {
		t.Errorf("key %s, body\n%s, want\n%s", key, body, want)
	}
	j := job
	j.OperatedBy, j.TraceID = "11111111-0000-4000-8000-000000000000", "t"
	h.Handle(context.Background(), j)
	if !strings.Contains(body, `"operatedBy":"11111111-0000-4000-8000-000000000000"`) || !strings.Contains(body, `"traceId":"t"`) {
		t.Error(body)
	}
}

func TestWhatAnAnswerMakesOfAJob(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		header string // Retry-After
		kind   queue.Kind
		delay  time.Duration
		result string
	}{
		{status: 200, kind: queue.Completed},
		{status: 204, kind: queue.Completed},
		{status: 201, body: `{"a": 1, "errors": []}`, kind: queue.Completed, result: `{"a": 1, "errors": []}`},
		{status: 200, body: `{"errors": ["line 3"]}`, kind: queue.CompletedWithErrors, result: `{"errors": ["line 3"]}`},
		{status: 200, body: `{"errors": "none"}`, kind: queue.Completed, result: `{"errors": "none"}`},
		{status: 200, body: `{"errors": null}`, kind: queue.Completed, result: `{"errors": null}`},
		{status: 200, body: `{"a": "\u0000"}`, kind: queue.Completed, result: `{"a": "\ufffd"}`},
		{status: 200, body: `done`, kind: queue.Failed},
		{status: 200, body: `[]`, kind: queue.Failed},
		{status: 200, body: "{\"a\": \"\xff\"}", kind: queue.Failed},
		{status: 200, body: `{"a": "` + strings.Repeat("x", 1<<20) + `"}`, kind: queue.Failed},
		{status: 302, kind: queue.Failed},
		{status: 400, kind: queue.Permanent},
		{status: 410, kind: queue.Permanent},
		{status: 422, kind: queue.Permanent},
		{status: 401, kind: queue.Failed},
		{status: 403, kind: queue.Failed},
		{status: 404, kind: queue.Failed},
		{status: 408, kind: queue.Failed},
		{status: 409, kind: queue.Failed},
		{status: 425, kind: queue.Failed},
		{status: 429, kind: queue.Failed},
		{status: 500, kind: queue.Failed},
		{status: 503, kind: queue.Failed},
		{status: 409, header: "3", kind: queue.Refused, delay: 3 * time.Second},
		{status: 429, header: "86400", kind: queue.Refused, delay: time.Hour},
		{status: 503, header: "0", kind: queue.Refused},
	} {
		t.Run(fmt.Sprintf("%d %s %.20s", c.status, c.header, c.body), func(t *testing.T) {
			out := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}).Handle(context.Background(), job)
			if out.Kind != c.kind || out.Delay != c.delay || string(out.Result) != c.result {
				t.Errorf("got %v, delay %v, result %s (%v)", out.Kind, out.Delay, out.Result, out.Err)
			}
			if done := c.kind == queue.Completed || c.kind == queue.CompletedWithErrors; done != (out.Err == nil) {
				t.Errorf("error %v", out.Err)
			}
		})
	}
}

func TestAJobThatIsTakenAway(t *testing.T) {
	entered := make(chan struct{})
	h := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-r.Context().Done()
	})
	for cause, want := range map[error]queue.Kind{queue.ErrLost: queue.Lost, errors.New("draining"): queue.Failed} {
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { <-entered; cancel(cause) }()
		if out := h.Handle(ctx, job); out.Kind != want || !errors.Is(out.Err, cause) {
			t.Errorf("%v: got %v, %v", cause, out.Kind, out.Err)
		}
	}
}

func TestNoEndpoint(t *testing.T) {
	h, err := handler.NewHTTP(webcall.Config{URL: "http://127.0.0.1:1/x"})
	if err != nil {
		t.Fatal(err)
	}
	if out := h.Handle(context.Background(), job); out.Kind != queue.Failed {
		t.Errorf("got %v, %v", out.Kind, out.Err)
	}
	if _, err := handler.NewHTTP(webcall.Config{URL: "nope"}); err == nil {
		t.Error("a URL that can't be was taken")
	}
}
