package webcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func serve(t testing.TB, h http.HandlerFunc, change ...func(*Config)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	cfg := Config{URL: s.URL + "/hook?key=secret", Timeout: 10 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestWhatIsPosted(t *testing.T) {
	var got *http.Request
	var body []byte
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}, func(cfg *Config) { cfg.Header, cfg.KeyPrefix = http.Header{"Authorization": {"Bearer x"}}, "h:1/a/" })
	result, err := c.Post(context.Background(), "job-7", strings.Repeat("ab", 16), map[string]any{"id": json.RawMessage("9007199254740993")})
	if err != nil || result != nil {
		t.Fatalf("got %s, %v", result, err)
	}
	if got.Method != "POST" || got.URL.Path != "/hook" || got.URL.RawQuery != "key=secret" || string(body) != `{"id":9007199254740993}` {
		t.Errorf("%s %s %s", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "^application/json$", "Idempotency-Key": "^h:1/a/job-7$", "Authorization": "^Bearer x$", "User-Agent": "^notifyworker$",
		"Traceparent": "^00-(ab){16}-[0-9a-f]{16}-01$",
	} {
		if !regexp.MustCompile(want).MatchString(got.Header.Get(name)) {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
}

func TestWhatAnAnswerMeans(t *testing.T) {
	in90 := time.Now().Add(90 * time.Second)
	for _, c := range []struct {
		status int
		body   string
		header []string
		kind   Kind
		delay  time.Duration
		says   string
	}{
		{status: 400, body: " no such\n\tcatalog ", kind: Rejected, says: "answered 400 Bad Request: no such  catalog"},
		{status: 401, kind: Unavailable},
		{status: 402, kind: Rejected},
		{status: 403, kind: Unavailable},
		{status: 404, kind: Unavailable},
		{status: 405, kind: Rejected},
		{status: 408, kind: Unavailable},
		{status: 409, kind: Unavailable},
		{status: 410, kind: Rejected},
		{status: 413, kind: Rejected},
		{status: 418, kind: Rejected},
		{status: 422, kind: Rejected},
		{status: 425, kind: Unavailable},
		{status: 429, kind: Unavailable},
		{status: 499, kind: Rejected, says: "answered 499"},
		{status: 500, kind: Broken},
		{status: 501, kind: Unavailable},
		{status: 502, kind: Unavailable},
		{status: 503, kind: Unavailable},
		{status: 504, kind: Unavailable},
		{status: 409, header: []string{"Retry-After", "7"}, kind: Later, delay: 7 * time.Second},
		{status: 429, header: []string{"Retry-After", " 0 "}, kind: Later},
		{status: 503, header: []string{"Retry-After", "99999999999999"}, kind: Later, delay: time.Hour, says: "try again in 1h0m0s"},
		{status: 503, header: []string{"Retry-After", in90.UTC().Format(http.TimeFormat), "Date", in90.Add(-90 * time.Second).UTC().Format(http.TimeFormat)}, kind: Later, delay: 90 * time.Second},
		{status: 503, header: []string{"Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"}, kind: Later},
		{status: 503, header: []string{"Retry-After", "soon"}, kind: Unavailable},
		{status: 503, header: []string{"Retry-After", "-5"}, kind: Unavailable},
		{status: 500, header: []string{"Retry-After", "7"}, kind: Broken},
		{status: 301, header: []string{"Location", "/elsewhere"}, kind: Unavailable, says: "redirects are not followed, configure the final URL"},
		{status: 307, header: []string{"Location", "/elsewhere"}, kind: Unavailable},
		{status: 200, body: "[1]", kind: BadAnswer, says: "its body is not a JSON object: [1]"},
		{status: 200, body: "<html>", kind: BadAnswer, says: "its body is not JSON: <html>"},
		{status: 200, body: `{"a": 1} x`, kind: BadAnswer},
		{status: 201, body: "null", kind: BadAnswer},
		{status: 200, body: "{\"a\": \"\xff\"}", kind: BadAnswer, says: "is not UTF-8"},
		{status: 200, body: `{"a": "` + strings.Repeat("x", maxAnswer) + `"}`, kind: BadAnswer, says: "more than 1048576 bytes"},
		{status: 400, body: strings.Repeat("\xff\x00é", 5000), kind: Rejected},
	} {
		t.Run(fmt.Sprint(c.status, c.header, quote([]byte(c.body[:min(20, len(c.body))]))), func(t *testing.T) {
			calls := 0
			h := answer(c.status, c.body, c.header...)
			client := serve(t, func(w http.ResponseWriter, r *http.Request) { calls++; h(w, r) })
			_, err := client.Post(context.Background(), "k", "", 1)
			e := As(err)
			if e == nil || e.Kind != c.kind || e.Status != c.status || e.Delay != c.delay || !strings.Contains(e.Error(), c.says) {
				t.Fatalf("got %+v, want kind %v, delay %v, %q", e, c.kind, c.delay, c.says)
			}
			if calls != 1 {
				t.Errorf("%d calls", calls)
			}
			if len(e.Error()) > 600 || strings.Contains(e.Error(), "secret") || strings.ContainsAny(e.Error(), "\x00\n") {
				t.Errorf("unfit for a log: %q", e.Error())
			}
		})
	}
}

func TestGoodAnswers(t *testing.T) {
	for body, want := range map[string]string{
		"": "", " \r\n ": "", `{}`: `{}`, " {\"a\" : [1, 1e3, -0.5E-7, 9007199254740993]}\n": `{"a" : [1, 1e3, -0.5E-7, 9007199254740993]}`,
		`{"a": "x\u0000y\\u0000", "\u0000": "\ud83d\ude00 \ud83d \ude00 \"\ud83d\\"}`: `{"a": "x\ufffdy\\u0000", "\ufffd": "\ud83d\ude00 \ufffd \ufffd \"\ufffd\\"}`,
	} {
		got, err := serve(t, answer(200, body)).Post(context.Background(), "k", "", 1)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", body, got, err, want)
		}
	}
	if _, err := serve(t, answer(204, "")).Post(context.Background(), "k", "", 1); err != nil {
		t.Errorf("204: %v", err)
	}
}

func TestASlowAnswerTimesOut(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"a":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The server sees that the client is gone only once it has read the request.
			c := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); h(w, r) },
				func(cfg *Config) { cfg.Timeout = 50 * time.Millisecond })
			_, err := c.Post(context.Background(), "k", "", 1)
			if e := As(err); e == nil || e.Kind != TimedOut || !strings.Contains(e.Error(), "did not answer within 50ms") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The connection of a 101 stays open for whatever comes next: reading it would hold the call, and with it a slot, for ever.
func TestAnAnswerThatSwitchesProtocolsEndsTheCall(t *testing.T) {
	closed := make(chan error, 1)
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err := conn.Read(make([]byte, 1))
		closed <- err
		_ = conn.Close()
	})
	_, err := c.Post(context.Background(), "k", "", 1)
	if e := As(err); e == nil || e.Kind != Unavailable || !strings.Contains(e.Error(), "answered 101 Switching Protocols") {
		t.Errorf("got %v", err)
	}
	if err := <-closed; !errors.Is(err, io.EOF) {
		t.Errorf("the connection was left open: %v", err)
	}
}

func TestACallThatIsCutOff(t *testing.T) {
	entered := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(entered)
		<-r.Context().Done()
	})
	cause := errors.New("lost")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { <-entered; cancel(cause) }()
	if _, err := c.Post(ctx, "k", "", 1); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestNoConnection(t *testing.T) {
	c, err := New(Config{URL: "http://user:secret@127.0.0.1:1/x?token=secret"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Post(context.Background(), "k", "", 1)
	if e := As(err); e == nil || e.Kind != Unavailable || e.Status != 0 || !strings.Contains(e.Error(), "connection refused") || strings.Contains(e.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	hangUp := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.Close()
	})
	if _, err := hangUp.Post(context.Background(), "k", "", 1); As(err) == nil || As(err).Kind != Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestConfigErrorsShowNoSecrets(t *testing.T) {
	for _, u := range []string{"", "host/path", "ftp://u:secret@h", "http://u:secret@h:port/%zz", "http://", "http://u:secret@ h/"} {
		if _, err := New(Config{URL: u}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
	if _, err := New(Config{URL: "http://h", Timeout: -1}); err == nil {
		t.Error("a negative timeout was taken")
	}
}

func TestTraceparent(t *testing.T) {
	id, full := strings.Repeat("0a", 16), "00-"+strings.Repeat("0b", 16)+"-00000000000000ff-01"
	for in, want := range map[string]string{
		full: "^" + full + "$", " " + strings.ToUpper(full): "^" + full + "$",
		id: "^00-" + id + "-[0-9a-f]{16}-01$",
		"": "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$", "request 17": "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$",
		strings.Repeat("0", 32): "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$", "ff" + full[2:]: "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$",
		"00-" + strings.Repeat("0", 32) + full[35:]: "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$",
	} {
		if got := Traceparent(in); !regexp.MustCompile(want).MatchString(got) || strings.Contains(got, "-0000000000000000-") {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if one, other := Traceparent(""), Traceparent(""); one == other {
		t.Error("not random")
	}
}
