package observe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/observe"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
)

func TestReadinessSaysWhyNot(t *testing.T) {
	since := time.Now().Add(-3 * time.Minute)
	failing := func(code, message string) func(*parts) {
		return func(p *parts) {
			p.worker.Trouble = worker.Trouble{Err: &pgconn.PgError{Code: code, Message: message}, Since: since}
		}
	}
	for name, tt := range map[string]struct {
		change func(*parts)
		want   []string // codes
		text   string
	}{
		"all is well":            {func(*parts) {}, nil, "ready\n"},
		"not registered":         {func(p *parts) { p.worker.Phase = worker.Starting }, []string{"starting"}, "not registered"},
		"draining":               {func(p *parts) { p.worker.Phase = worker.Draining }, []string{"draining"}, "takes nothing new"},
		"deaf":                   {func(p *parts) { p.listener.Hearing, p.listener.Reason = listen.Deaf, "a pooler" }, []string{"deaf"}, "a pooler"},
		"reconnecting for long":  {func(p *parts) { p.listener.Hearing, p.listener.Since = listen.Connecting, since }, []string{"reconnecting"}, "connecting"},
		"reconnecting":           {func(p *parts) { p.listener.Hearing = listen.Connecting }, nil, "ready\n"},
		"polling, as configured": {func(p *parts) { p.listener.Hearing = listen.Polling }, nil, "polling"},
		"stuck":                  {func(p *parts) { p.worker.Turned = since }, []string{"stuck"}, "has not turned"},
		"no right":               {failing("42501", "permission denied for table jobs"), []string{"permission_denied"}, "docs/security.md"},
		"a standby":              {failing("25006", "cannot execute UPDATE in a read-only transaction"), []string{"read_only"}, "primary"},
		"no server takes writes": {func(p *parts) {
			p.worker.Trouble = worker.Trouble{Err: fmt.Errorf("reserve: a\n\tb: %w", pgconn.ErrReadOnlyConnection), Since: since}
		}, []string{"read_only"}, "read_only: reserve: a b: read only"},
		"another schema":          {failing("42883", "function reserve does not exist"), []string{"schema"}, "notifyworker migrate"},
		"shutting down":           {failing("57P01", "terminating connection"), []string{"database_unreachable"}, since.UTC().Format(time.RFC3339)},
		"disk full":               {failing("53100", "could not extend file"), []string{"database_failing"}, "could not extend"},
		"beats fail":              {func(p *parts) { p.worker.BeatTrouble = worker.Trouble{Err: errors.New("conn closed"), Since: since} }, []string{"database_unreachable"}, "conn closed"},
		"answers no question":     {func(p *parts) { p.store.err = io.ErrUnexpectedEOF }, []string{"database_unreachable"}, "database_unreachable: "},
		"takes no writes":         {func(p *parts) { p.store.err = queue.ErrReadOnly }, []string{"read_only"}, "read-only"},
		"a role without rights":   {func(p *parts) { p.store.err = queue.ErrNoRights }, []string{"permission_denied"}, "permission denied"},
		"several at once, in one": {func(p *parts) { failing("57P03", "starting up")(p); p.worker.BeatTrouble = p.worker.Trouble }, []string{"database_unreachable"}, "starting up"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParts()
			tt.change(p)
			o := p.observer(observe.Config{Version: "v1"})
			want := http.StatusOK
			if len(tt.want) > 0 {
				want = http.StatusServiceUnavailable
			}
			code, text := get(t, o, "/readyz")
			if code != want || !strings.Contains(text, tt.text) {
				t.Errorf("status %d, want %d: %s", code, want, text)
			}
			_, body := get(t, o, "/readyz", "Accept", "application/json")
			var h observe.Health
			if err := json.Unmarshal([]byte(body), &h); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			var codes []string
			for _, r := range h.Reasons {
				codes = append(codes, r.Code)
				if r.Since.IsZero() {
					t.Errorf("%s has no time", r.Code)
				}
			}
			if strings.Join(codes, " ") != strings.Join(tt.want, " ") || h.Ready != (len(tt.want) == 0) || h.Version != "v1" {
				t.Errorf("got %s, want %v", body, tt.want)
			}
		})
	}
}

func TestAProcessThatWaitsForItsDatabaseIsLiveAndNotReady(t *testing.T) {
	o := observe.New(observe.Config{})
	o.Add("h:1/a", zerolog.Nop()).Waiting(errors.New("connect to database app: refused"))
	if code, text := get(t, o, "/livez"); code != http.StatusOK || text != "live\n" {
		t.Errorf("livez: %d %s", code, text)
	}
	if code, text := get(t, o, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "starting: waiting for the database: connect to database app: refused (since ") {
		t.Errorf("readyz: %d %s", code, text)
	}
	if code, text := get(t, o, "/metrics"); code != http.StatusOK || !strings.Contains(text, `notifyworker_ready{database="h:1/a"} 0`) {
		t.Errorf("metrics: %d %s", code, text)
	}
	if code, _ := get(t, o, "/nothing"); code != http.StatusNotFound {
		t.Errorf("an unknown page: %d", code)
	}
}

func TestOnlyALoopThatDoesNotTurnIsDead(t *testing.T) {
	p := newParts()
	p.worker.Turned = time.Now().Add(-2 * time.Minute)
	o := p.observer(observe.Config{})
	if code, text := get(t, o, "/livez"); code != http.StatusServiceUnavailable || !strings.Contains(text, "has not turned since") {
		t.Errorf("%d %s", code, text)
	}
	p.worker.Phase = worker.Draining
	if code, text := get(t, o, "/livez", "Accept", "application/json"); code != http.StatusOK || !strings.Contains(text, `"live": true`) {
		t.Errorf("while draining: %d %s", code, text)
	}
}

func TestAnAddressNamesItsHost(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:9787": "", "0.0.0.0:80": "", "[::1]:9787": "", "localhost:0": "",
		":9787": "0.0.0.0:9787", "127.0.0.1": "host:port", "127.0.0.1:http": "port number", "127.0.0.1:99999": "port number", "": "host:port",
	} {
		err := observe.CheckAddr(addr)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", addr, err, want)
		}
	}
}
