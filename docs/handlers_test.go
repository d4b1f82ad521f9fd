package docs_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/handler"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/internal/webcall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// credit books an amount once per Idempotency-Key, however often it is called.
func credit(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var job struct {
			Config struct {
				Account string      `json:"account"`
				Amount  json.Number `json:"amount"`
			} `json:"config"`
		}
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity) // the same body would fail again: never
			return
		}
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(r.Context(), `INSERT INTO handled_keys (key) VALUES ($1) ON CONFLICT DO NOTHING`, r.Header.Get("Idempotency-Key"))
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
			_, err = tx.Exec(r.Context(), `UPDATE accounts SET balance = balance + $2::text::numeric WHERE id = $1`, job.Config.Account, job.Config.Amount.String())
			return err
		})
		if err != nil {
			http.Error(w, "try again", http.StatusInternalServerError)
		}
	}
}

// A job of handlers.md.
func jobOf(id int64, kind, config string) queue.Job {
	return queue.Job{
		ID: id, Type: kind, TenantID: queue.DefaultTenant, Config: json.RawMessage(config), Attempt: 1, MaxAttempts: 20,
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
	}
}

func httpHandler(t *testing.T, h http.Handler) *handler.HTTP {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := handler.NewHTTP(webcall.Config{URL: strings.Replace(s.URL, "http://", "http://ana:secret@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestTheSQLHandlersOfThePageDoWhatItSays(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	runSQL(t, db, blocks(read(t, "handlers.md")))
	call := func(function, config string) queue.Outcome {
		t.Helper()
		h, err := handler.NewSQL(handler.SQLConfig{Name: function, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		return h.Handle(t.Context(), jobOf(7, "x", config))
	}
	for range 2 {
		out := call("app.import_csv", `{"rows": [{"sku": "a", "name": "A"}, {"sku": "b"}]}`)
		if out.Kind != queue.CompletedWithErrors || string(out.Result) != `{"errors": [{"line": 2, "error": "sku and name are needed"}], "imported": 1}` {
			t.Errorf("import: %v %s %v", out.Kind, out.Result, out.Err)
		}
	}
	if out := call("app.import_csv", `{"rows": []}`); out.Kind != queue.Completed {
		t.Errorf("an import without errors: %v %v", out.Kind, out.Err)
	}
	if out := call("app.nightly", `{}`); out.Kind != queue.Permanent || out.Err.Error() != "no month is given" {
		t.Errorf("never: %v %v", out.Kind, out.Err)
	}
	if out := call("app.nightly", `{"month": "2026-06"}`); out.Kind != queue.Refused || out.Delay != time.Hour {
		t.Errorf("not now: %v %v in %v", out.Kind, out.Err, out.Delay)
	}
	if out := call("app.nightly", `{"month": "2026-05"}`); out.Kind != queue.Completed || len(out.Result) != 0 {
		t.Errorf("void: %v %v", out.Kind, out.Err)
	}
	if out := call("app.missing", `{}`); out.Kind != queue.Failed {
		t.Errorf("anything else: %v", out.Kind)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO app.accounts VALUES ('a', 1)`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"credited": true}`, `{"note": "was credited before", "credited": false}`} {
		if out := call("app.credit", `{"account": "a", "amount": 10}`); string(out.Result) != want {
			t.Errorf("credit: %v %s %v", out.Kind, out.Result, out.Err)
		}
	}
	wantBalance(t, pool, `SELECT balance::text FROM app.accounts`)
}

func wantBalance(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	var balance string
	if err := pool.QueryRow(t.Context(), sql).Scan(&balance); err != nil || balance != "11" {
		t.Errorf("the balance is %s, %v", balance, err)
	}
}

func TestTheEndpointOfThePageIsIdempotent(t *testing.T) {
	pool := pgtest.DB(t).Pool(t)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE handled_keys (key text PRIMARY KEY); CREATE TABLE accounts (id text, balance numeric); INSERT INTO accounts VALUES ('a', 1)`); err != nil {
		t.Fatal(err)
	}
	h := httpHandler(t, credit(pool))
	for range 2 {
		if out := h.Handle(t.Context(), jobOf(7, "credit", `{"account": "a", "amount": 10}`)); out.Kind != queue.Completed {
			t.Errorf("%v %v", out.Kind, out.Err)
		}
	}
	wantBalance(t, pool, `SELECT balance::text FROM accounts`)
}

func TestTheRequestIsAsThePageShowsIt(t *testing.T) {
	page := read(t, "handlers.md")
	var want, got any
	for _, b := range blocks(page) {
		if b.lang == "json" {
			if err := json.Unmarshal([]byte(b.text), &want); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := httpHandler(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &got) != nil {
			t.Errorf("body %s, %v", body, err)
		}
		for _, b := range blocks(page) {
			if !strings.HasPrefix(b.text, "POST ") {
				continue
			}
			for line := range strings.Lines(b.text) {
				if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !matches(r.Header.Get(name), value) {
					t.Errorf("%s is %s, the page says %s", name, r.Header.Get(name), value)
				}
			}
		}
		if user, password, _ := r.BasicAuth(); user != "ana" || password != "secret" {
			t.Error("the URL's user was not sent")
		}
	}))
	if strings.Contains(h.String(), "secret") {
		t.Errorf("the password is shown: %s", h)
	}
	if out := h.Handle(t.Context(), jobOf(7, "send_report", `{"month": "2026-05"}`)); out.Kind != queue.Completed {
		t.Fatal(out.Err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, the page shows %v", got, want)
	}
}

// The table of outcomes: each status of a row leads to the outcome of that row.
func TestEveryStatusMeansWhatThePageSays(t *testing.T) {
	kinds := map[string]queue.Kind{"done": queue.Completed, "not now": queue.Refused, "never": queue.Permanent, "failed": queue.Failed}
	retryAfter := false
	status := 0
	h := httpHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter {
			w.Header().Set("Retry-After", "30")
		}
		w.WriteHeader(status)
	}))
	seen := 0
	try := func(code int, want queue.Kind) {
		t.Helper()
		seen++
		status = code
		if out := h.Handle(t.Context(), jobOf(1, "x", `{}`)); out.Kind != want || (want == queue.Refused && out.Delay != 30*time.Second) {
			t.Errorf("status %d, Retry-After %v: %v in %v", code, retryAfter, out.Kind, out.Delay)
		}
	}
	for line := range strings.Lines(section(t, read(t, "handlers.md"), "## What a handler can say")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		kind, ok := kinds[strings.TrimSpace(cells[1])]
		if !ok {
			continue
		}
		retryAfter = kind == queue.Refused
		for _, word := range strings.FieldsFunc(cells[2], func(r rune) bool { return strings.ContainsRune(" ,;", r) }) {
			if code, err := strconv.Atoi(word); err == nil {
				try(code, kind)
			} else if class, ok := strings.CutSuffix(word, "xx"); ok && len(class) == 1 {
				n := int(class[0]-'0') * 100
				for _, offset := range map[string][]int{"2": {0, 4}, "3": {1, 8}, "4": {0, 10, 13, 22}, "5": {0, 2, 3, 4}}[class] {
					try(n+offset, kind)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("the table has only %d statuses", seen)
	}
}
