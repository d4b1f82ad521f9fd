package docs_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"notifyworker/internal/engine"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/internal/webcall"
)

func TestTheFunctionsOfTheEnginesPageAreTaken(t *testing.T) {
	db := pgtest.DB(t)
	pool := db.Pool(t)
	runSQL(t, db, blocks(read(t, "engine.md")))
	_, err := pool.Exec(t.Context(), `INSERT INTO shop.tariffs VALUES ('outdoor', 'p1', 10), ('outdoor', '2', 5), ('kitchen', 'k', 1)`)
	if err != nil {
		t.Fatal(err)
	}
	sql, err := engine.NewSQLFunction(engine.SQLFunctionConfig{Name: "shop.recompute", Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	list := &engine.SQLProducts{Name: "shop.products_of", Pool: pool}
	e, err := engine.New(engine.Config{
		Pool: pool, WorkerID: "aaaaaaaa-0000-4000-8000-000000000001", Recompute: sql, Products: list,
		ArticleFunction: "shop.article_of", Refreshes: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids, err := list.List(t.Context(), queue.DefaultTenant, "outdoor")
	if err != nil || len(ids) != 2 {
		t.Fatalf("listed %s, %v", ids, err)
	}
	for _, c := range []engine.Chunk{{ProductIDs: []json.RawMessage{json.RawMessage(`"p1"`), json.RawMessage(`2`)}}, {}} {
		c.TenantID, c.CatalogID = queue.DefaultTenant, "outdoor"
		if n, failed, err := sql.Recompute(t.Context(), c); n != 2 || len(failed) > 0 || err != nil {
			t.Errorf("recomputed %d, %v, %v", n, failed, err)
		}
	}
}

func TestTheEnginesRequestIsAsThePageShowsIt(t *testing.T) {
	page := read(t, "engine.md")
	var want, got any
	for _, b := range blocks(page) {
		if b.lang == "json" {
			if err := json.Unmarshal([]byte(b.text), &want); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &got) != nil {
			t.Errorf("body %s, %v", body, err)
		}
		if key := r.Header.Get("Idempotency-Key"); !strings.Contains(page, "(`"+key+"`:") || r.Header.Get("Traceparent") == "" {
			t.Errorf("the key is %s", key)
		}
	}))
	defer s.Close()
	h, err := engine.NewHTTPEndpoint(webcall.Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	c := engine.Chunk{
		Refresh:    engine.Refresh{ID: 7, TenantID: queue.DefaultTenant, CatalogID: "outdoor"},
		ProductIDs: []json.RawMessage{json.RawMessage(`"p1"`), json.RawMessage(`2`)},
	}
	if _, _, err := h.Recompute(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, the page shows %v", got, want)
	}
}

func TestTheRefusalsOfThePageAreThoseOfTheEngine(t *testing.T) {
	names := firstColumn(section(t, read(t, "engine.md"), "## Admission: four refusals"))
	code := read(t, "../internal/engine/errors.go")
	if len(names) != 4 {
		t.Errorf("the page has %v", names)
	}
	for _, n := range names {
		if !strings.Contains(code, "\t"+n+" = errors.New(") {
			t.Errorf("the engine has no %s", n)
		}
	}
}
