package docs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestTheSQLOfTheSQLInterfaceDoesWhatThePageSays(t *testing.T) { runPage(t, "sql-api.md") }

// The page leaves the options of all calls out of each signature and lists them once.
func TestTheSQLInterfaceHasTheSignaturesOfThePage(t *testing.T) {
	page := read(t, "sql-api.md")
	options := firstColumn(section(t, page, "## Options of all enqueue calls"))
	conn := pgtest.DB(t).Conn(t)
	for _, name := range []string{"enqueue_price_refresh", "enqueue_price_refreshes", "enqueue_full_refresh", "enqueue_job", "replay", "cancel"} {
		var names, modes, types []string
		err := conn.QueryRow(t.Context(), `SELECT array_agg(n ORDER BY o), array_agg(m ORDER BY o), array_agg(format_type(ty, NULL) ORDER BY o)
			  FROM pg_proc p, unnest(p.proargnames, p.proargmodes::text[], p.proallargtypes) WITH ORDINALITY x (n, m, ty, o)
			 WHERE p.oid = ANY (SELECT oid FROM pg_proc WHERE pronamespace = 'notifyworker'::regnamespace AND proname = $1)`, name).
			Scan(&names, &modes, &types)
		if err != nil {
			t.Fatal(err)
		}
		var in, out []string
		seen := map[string]bool{}
		for i, n := range names {
			arg := n + " " + types[i]
			switch isOption := contains(options, n); {
			case modes[i] != "i":
				out = append(out, arg)
			case !isOption:
				in = append(in, arg)
			case len(seen) == 0:
				in = append(in, "…")
				fallthrough
			default:
				seen[n] = true
			}
		}
		if len(seen) != 0 && len(seen) != len(options) {
			t.Errorf("%s has the options %v, the page lists %v", name, seen, options)
		}
		if want := name + "(" + strings.Join(in, ", ") + ") → " + strings.Join(out, ", "); !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// The Go code of the pages stands in the tests of this folder and is run there, that of other languages in examples/clients.
func TestTheCodeOfThePagesIsCodeThatRuns(t *testing.T) {
	sources := map[string]string{
		"go":     read(t, "sqlapi_test.go") + read(t, "handlers_test.go"),
		"python": read(t, "../examples/clients/enqueue.py"),
		"js":     read(t, "../examples/clients/enqueue.mjs"),
	}
	found := map[string]bool{}
	for _, b := range append(blocks(read(t, "sql-api.md")), blocks(read(t, "handlers.md"))...) {
		source, ok := sources[b.lang]
		if !ok {
			continue
		}
		found[b.lang] = true
		if !strings.Contains(source, b.text) {
			t.Errorf("the %s block of line %d is not in its source", b.lang, b.line)
		}
	}
	if len(found) != len(sources) {
		t.Errorf("found only %v", found)
	}
}

// publish stores a tariff and asks for its price, in one transaction.
func publish(ctx context.Context, pool *pgxpool.Pool, catalog, product, unitPrice string) (jobID int64, joined bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tariffs VALUES ($1, $2, $3::text::numeric)
			ON CONFLICT (catalog, product) DO UPDATE SET unit_price = excluded.unit_price`, catalog, product, unitPrice)
		if err != nil {
			return fmt.Errorf("store the tariff: %w", err)
		}
		return tx.QueryRow(ctx, `SELECT job_id, joined FROM notifyworker.enqueue_price_refresh($1, $2)`,
			catalog, []string{product}).Scan(&jobID, &joined)
	})
	return jobID, joined, err
}

func TestTheGoExampleEnqueues(t *testing.T) {
	pool := pgtest.DB(t).Pool(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE tariffs (catalog text, product text, unit_price numeric, PRIMARY KEY (catalog, product))"); err != nil {
		t.Fatal(err)
	}
	first, joined, err := publish(t.Context(), pool, "outdoor", "p1", "12.50")
	if err != nil || joined {
		t.Fatalf("job %d, joined %v, %v", first, joined, err)
	}
	second, joined, err := publish(t.Context(), pool, "outdoor", "p2", "3.10")
	if err != nil || !joined || second != first {
		t.Fatalf("job %d after %d, joined %v, %v", second, first, joined, err)
	}
	if _, _, err := publish(t.Context(), pool, "", "p2", "0"); err == nil {
		t.Fatal("a catalog without a name was enqueued")
	}
	var config string
	var tariffs int
	err = pool.QueryRow(t.Context(), `SELECT (SELECT config::text FROM notifyworker.reserve(1, gen_random_uuid(), 1000)), (SELECT count(*) FROM tariffs)`).
		Scan(&config, &tariffs)
	if err != nil || config != `{"catalogId": "outdoor", "productIds": ["p1", "p2"]}` || tariffs != 2 {
		t.Fatalf("config %s, %d tariffs, %v", config, tariffs, err)
	}
}

func TestTheSQLOfTheREADMEDoesWhatItSays(t *testing.T) { runPage(t, "../README.md") }
