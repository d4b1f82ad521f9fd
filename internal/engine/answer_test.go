package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"notifyworker/internal/engine"
)

// An endpoint whose language rounds large numbers fails for one product and names another: that one product, whichever it is,
// is found by calls for parts, and does not pass for recomputed.
func TestAnAnswerThatNamesAnotherIDIsTheFaultOfAProduct(t *testing.T) {
	const sent, named = "9007199254740993", "9007199254740992"
	for _, kind := range []string{"HTTP", "SQL", "SQL in another database"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			shop := b.withShop()
			b.exec(`CREATE FUNCTION shop.rounds(c text, ids jsonb) RETURNS jsonb LANGUAGE sql AS $$
				SELECT CASE WHEN ids @> '[` + sent + `]' THEN '{"failed": [{"id": ` + named + `}]}'::jsonb END $$`)
			var r engine.Recomputer = serve(t, func(w http.ResponseWriter, _ int, got received) {
				if strings.Contains(got.Body, sent) {
					_, _ = io.WriteString(w, `{"failed": [{"id": `+named+`}]}`)
				}
			})
			if kind != "HTTP" {
				r = b.sqlFunction(engine.SQLFunctionConfig{Name: "rounds", Pool: shop, SameDatabase: kind == "SQL"})
			}
			_, err := b.start(r).Submit(context.Background(), b.job("c", `["p1", 2, `+sent+`, "p4"]`))
			must(t, err)
			if l := b.letter(); strings.Join(l.IDs, " ") != sent || !strings.Contains(l.Failed[0].Error, named) {
				t.Errorf("dead letter %+v", l)
			}
			if n := value[int](b, `SELECT recomputed FROM notifyworker.refreshes`); n != 3 {
				t.Errorf("%d recomputed, want 3", n)
			}
		})
	}
}

// Something has failed, and nobody can tell what: nothing passes for recomputed, of a list of ids or of a whole catalog.
func TestAnAnswerWithoutIDsIsRefused(t *testing.T) {
	b := newBench(t)
	for i, answer := range []string{`{"failed": [{}]}`, `{"failed": ["p1"]}`, `{"failed": [{"id": null}]}`, `{"failed": [{"id": {"x": 1}}]}`, `{"failed": [{"id": true}]}`, `{"failed": {"id": "p1"}}`, `{"failed": "p1"}`, `{"failed": 1}`} {
		for _, ids := range []string{`'["p1"]'`, `NULL`} {
			token := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
			_, err := b.pool.Exec(context.Background(), `SELECT notifyworker.recompute_chunk(1, $1, 1000, $2, 'json', `+ids+`, NULL, NULL, false, NULL, 'c')`,
				token, `SELECT '`+answer+`'::jsonb`)
			if err == nil || !strings.Contains(err.Error(), "NW501") {
				t.Errorf("%s, of %s: got %v", answer, ids, err)
			}
		}
	}
}
